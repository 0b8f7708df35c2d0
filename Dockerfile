# The image holds the binary and root certificates, nothing else:
#   docker build -t weir .
#   docker run -p 9080:9080 -p 9443:9443 -v weir:/data weir
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /weir ./cmd/weir \
 && mkdir -p /data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /weir /weir
COPY --from=build --chown=65534:65534 /data /data
COPY --chown=65534:65534 packaging/docker.yaml /conf/config.yaml
USER 65534:65534
EXPOSE 9080 9443 9443/udp
VOLUME /data
STOPSIGNAL SIGQUIT
ENTRYPOINT ["/weir"]
CMD ["run"]
