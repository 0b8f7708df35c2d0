# Measurements; they need a quiet machine, two cores, and for bench-proxy
# nginx and wrk (apt-get install nginx-core wrk).

.PHONY: bench-weir bench-proxy bench-body bench-upload bench-slow bench-websockets bench-keepalive bench-updates bench-http2 bench-start bench-churn bench-pairs bench-plugins bench-chain bench-scrape bench-ab bench-profiled bench-planted bench-reload bench-reload-clients bench-reload-large bench-threescale faults soak bench-million

bench-weir:
	@go build -o bin/weir ./cmd/weir

bench-proxy: bench-weir ## CPU per proxied request beside nginx and a byte forwarder (BENCH_FLAGS="--rounds 6 --json")
	@bash bench/proxy.sh --weir bin/weir $(BENCH_FLAGS)

bench-body: bench-weir ## CPU per answer of 100 KiB beside nginx, its buffers as they are by default and unbuffered
	@bash bench/proxy.sh --weir bin/weir --answer 102400 --connections 16 --engines weir,nginx,bare,unbuffered $(BENCH_FLAGS)

bench-upload: bench-weir ## the same for requests with bodies of 100 KiB
	@bash bench/proxy.sh --weir bin/weir --upload 102400 --connections 16 --engines weir,nginx,bare,unbuffered $(BENCH_FLAGS)

bench-slow: bench-weir ## memory while 1 GiB goes through to a slow client, and from one (BENCH_FLAGS="--seconds 60")
	@bin/weir bench slow $(BENCH_FLAGS)
	@bin/weir bench slow --upload $(BENCH_FLAGS)

bench-websockets: bench-weir ## memory of 10,000 idle WebSockets
	@bin/weir bench websockets $(BENCH_FLAGS)

bench-keepalive: bench-weir ## 10,000 GET and 10,000 POST each when the upstream's idle time-out ends
	@bin/weir bench keepalive $(BENCH_FLAGS)

bench-updates: bench-weir ## 400 updates back to back, of 40,000 routes and 20,000 upstreams and of a tenth of that
	@bin/weir bench updates $(BENCH_FLAGS)

bench-http2: ## CPU per HTTP/2 request beside net/http's own reverse proxy
	@go test -run '^$$' -bench ReverseProxy -benchtime 9x ./internal/engine/h2

bench-start: bench-weir ## start to first authenticated 200 with 50,000 consumers (BENCH_FLAGS="--consumers 100000")
	@bin/weir bench churn --start $(BENCH_FLAGS)

bench-churn: bench-weir ## traffic while 500 consumers are created and 100 deleted in five minutes, 50,000 loaded
	@bin/weir bench churn $(BENCH_FLAGS)

bench-pairs: bench-weir ## the same churn in five minutes that alternate with idle ones: p99 churn / p99 idle
	@bin/weir bench churn --pairs 5 $(BENCH_FLAGS)

# Its memory (rss of an idle phase) less that of the last line's, by CONSUMERS, is what one consumer costs.
CONSUMERS ?= 1000000
bench-million: bench-weir ## CONSUMERS=1000000 from an etcd: start, 1,000 changes a second in pairs with idle phases, memory with and without
	@bin/weir bench churn --external-etcd --consumers $(CONSUMERS) --start --start-runs 3 --ready 5m $(BENCH_FLAGS)
	@bin/weir bench churn --external-etcd --direct --consumers $(CONSUMERS) --ready 10m --pairs 5 --phase 10s --creates 50000 --deletes 0 --concurrency 64 $(BENCH_FLAGS)
	@bin/weir bench churn --external-etcd --consumers 300 --keys 300 --pairs 1 --phase 5s --creates 0 --deletes 0 $(BENCH_FLAGS)

bench-plugins: ## what plugins cost inside the process, compared by benchstat (ROUNDS=10, SECONDS=0.5)
	@bash bench/plugins.sh $(or $(ROUNDS),10) $(or $(SECONDS),0.5)

bench-chain: bench-weir ## CPU per request with key-auth, limit-count, prometheus and proxy-rewrite beside a bare nginx proxy_pass (at most 1.35)
	@bash bench/proxy.sh --weir bin/weir --chain $(BENCH_FLAGS)

bench-scrape: bench-weir ## latency of requests while 500,000 lines of metrics are read, paired with idle phases
	@bin/weir bench scrape $(BENCH_FLAGS)

bench-ab: bench-weir ## prometheus as a global rule over the wire: off, returning at once, complete (BENCH_FLAGS="--pairs 40")
	@bin/weir bench ab --plugin prometheus --global $(BENCH_FLAGS)

bench-profiled: bench-weir ## what being profiled costs a gateway: CPU per request and throughput beside itself
	@bin/weir bench ab --profiled $(BENCH_FLAGS)

# Its binary has a plugin that no other has; nothing but this experiment uses it.
bench-planted: ## is a plugin that wastes 5 % of the CPU over four phases named by weir profile and sized by weir bench ab (PAIRS=560 STARTS=40 SHARE=5)
	@go build -tags planted -o bin/weir-planted ./cmd/weir
	@bash bench/planted.sh bin/weir-planted $(or $(PAIRS),560) $(or $(STARTS),40) $(or $(SHARE),5)

bench-reload: bench-weir ## 600 3scale products refreshed every 15 s, 0, 1 and 10 % changed, paired with idle phases (BENCH_FLAGS="--batcher")
	@bin/weir bench reload $(BENCH_FLAGS)

bench-reload-clients: bench-weir ## the same with clients rising to 100 and 200 instead of 100 requests a second
	@bin/weir bench reload --clients 100,200 $(BENCH_FLAGS)

bench-reload-large: bench-weir ## 10,000 products of which one changes before each refresh
	@bin/weir bench reload --products 10000 --changed 1 $(BENCH_FLAGS)

bench-threescale: bench-weir ## CPU per request of a 3scale product of seven policies beside a bare nginx
	@bash bench/proxy.sh --weir bin/weir --threescale $(BENCH_FLAGS)

faults: bench-weir ## break store, network, disk, descriptors, upstreams and the gateway under load (BENCH_FLAGS="--only kill --kills 200")
	@bin/weir bench faults --json bin/faults.json $(BENCH_FLAGS)

soak: bench-weir ## random changes of every kind beside a model, memory flat or not (SOAK=10m)
	@bin/weir bench soak --duration $(or $(SOAK),30m) --json bin/soak.json $(BENCH_FLAGS)
