package grpctranscode

import (
	"encoding/base64"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/document"
)

// What a client gets instead of a status that cannot be read, in APISIX's words.
const (
	notBase64  = "grpc-status-details-bin is not base64 format"
	notStatus  = "failed to call pb.decode to decode grpc-status-details-bin"
	notDetails = "failed to call pb.decode to decode details in grpc-status-details-bin"
)

// failure is the status of a failed call as JSON, from grpc-status-details-bin: a
// google.rpc.Status in base64.
func (t *transcoder) failure(details string) []byte {
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(details, "="))
	if err != nil {
		return t.unreadable(notBase64)
	}
	s, ok := readStatus(raw)
	if !ok {
		return t.unreadable(notStatus)
	}
	dst := append([]byte(`{"error":{"code":`), strconv.FormatInt(int64(s.code), 10)...)
	dst = append(document.AppendText(append(dst, `,"message":`...), s.message), `,"details":[`...)
	for i, d := range s.details {
		if i > 0 {
			dst = append(dst, ',')
		}
		if t.StatusDetailType == "" {
			dst = document.AppendText(append(dst, `{"type_url":`...), d.url)
			dst = append(document.AppendText(append(dst, `,"value":`...), string(d.value)), '}')
			continue
		}
		if t.detail == nil {
			return t.unreadable(notDetails)
		}
		text, err := decode(t.detail, d.value, t.form)
		if err != nil {
			return t.unreadable(notDetails)
		}
		dst = append(dst, text...)
	}
	return append(dst, "]}}"...)
}

func (t *transcoder) unreadable(words string) []byte {
	t.env.Log.Error("grpc-transcode: "+words, "owner", t.env.Owner)
	return []byte(words)
}

// A status is google.rpc.Status.
type status struct {
	code    int32
	message string
	details []detail
}

// A detail is google.protobuf.Any.
type detail struct {
	url   string
	value []byte
}

func readStatus(raw []byte) (s status, ok bool) {
	ok = eachField(raw, func(n protowire.Number, number uint64, bytes []byte) bool {
		switch n {
		case 1:
			s.code = int32(number)
		case 2:
			s.message = string(bytes)
		case 3:
			var d detail
			if !eachField(bytes, func(n protowire.Number, _ uint64, bytes []byte) bool {
				switch n {
				case 1:
					d.url = string(bytes)
				case 2:
					d.value = bytes
				}
				return true
			}) {
				return false
			}
			s.details = append(s.details, d)
		}
		return true
	})
	return s, ok
}

// eachField calls f with each field of a message that is a number or bytes; false:
// it is no message, or f has said so.
func eachField(raw []byte, f func(n protowire.Number, number uint64, bytes []byte) bool) bool {
	for len(raw) > 0 {
		n, typ, size := protowire.ConsumeTag(raw)
		if size < 0 {
			return false
		}
		raw = raw[size:]
		var number uint64
		var bytes []byte
		switch typ {
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(raw)
		case protowire.BytesType:
			bytes, size = protowire.ConsumeBytes(raw)
		default:
			size = protowire.ConsumeFieldValue(n, typ, raw)
		}
		if size < 0 || !f(n, number, bytes) {
			return false
		}
		raw = raw[size:]
	}
	return true
}
