package wire

import "strconv"

// AppendRequestLine appends the request line of an HTTP/1.1 request.
func AppendRequestLine(dst []byte, method, target string) []byte {
	dst = append(append(append(dst, method...), ' '), target...)
	return append(dst, " HTTP/1.1\r\n"...)
}

// AppendStatusLine appends the status line of an HTTP/1.1 response. An empty
// reason stands for Reason(status).
func AppendStatusLine(dst []byte, status int, reason string) []byte {
	if reason == "" {
		reason = Reason(status)
	}
	dst = append(dst, "HTTP/1.1 "...)
	dst = append(dst, byte('0'+status/100%10), byte('0'+status/10%10), byte('0'+status%10), ' ')
	return append(append(dst, reason...), "\r\n"...)
}

// AppendFraming appends the field that frames a body of that length:
// Content-Length, Transfer-Encoding, or none for UntilClose.
func AppendFraming(dst []byte, length int64) []byte {
	switch length {
	case UntilClose:
		return dst
	case Chunked:
		return append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	dst = strconv.AppendInt(append(dst, "Content-Length: "...), length, 10)
	return append(dst, "\r\n"...)
}

// AppendChunkSize appends the line that starts a chunk of n > 0 bytes. The
// chunk's bytes and CRLF follow.
func AppendChunkSize(dst []byte, n int) []byte {
	return append(strconv.AppendUint(dst, uint64(n), 16), "\r\n"...)
}

// MaxChunkSize is the length of the longest line that starts a chunk.
const MaxChunkSize = 16 + len("\r\n")

// PutChunkSize writes the line that starts a chunk of n > 0 bytes so that it
// ends where b, of at least MaxChunkSize bytes, ends, and returns where it
// starts. So data read behind a gap becomes a chunk without a copy.
func PutChunkSize(b []byte, n int) int {
	const hex = "0123456789abcdef"
	i := len(b) - 2
	b[i], b[i+1] = '\r', '\n'
	for u := uint64(n); ; {
		i--
		b[i] = hex[u&15]
		if u >>= 4; u == 0 {
			return i
		}
	}
}

// AppendLastChunk appends the end of a chunked body with its trailer section;
// trailer may be nil.
func AppendLastChunk(dst []byte, trailer *Header) []byte {
	dst = append(dst, "0\r\n"...)
	if trailer != nil {
		dst = trailer.AppendTo(dst)
	}
	return append(dst, "\r\n"...)
}

// Reason is the reason phrase for a status, in nginx's words, which clients of
// APISIX and APIcast know; for statuses that nginx has no words for, in those
// of the IANA registry. It is empty for unknown statuses.
func Reason(status int) string {
	if status < 100 || status >= 100+len(reasons) {
		return ""
	}
	return reasons[status-100]
}

var reasons = [...]string{
	0: "Continue",
	1: "Switching Protocols",
	2: "Processing",
	3: "Early Hints",

	100: "OK",
	101: "Created",
	102: "Accepted",
	103: "Non-Authoritative Information",
	104: "No Content",
	105: "Reset Content",
	106: "Partial Content",
	107: "Multi-Status",
	108: "Already Reported",
	126: "IM Used",

	200: "Multiple Choices",
	201: "Moved Permanently",
	202: "Moved Temporarily",
	203: "See Other",
	204: "Not Modified",
	205: "Use Proxy",
	207: "Temporary Redirect",
	208: "Permanent Redirect",

	300: "Bad Request",
	301: "Unauthorized",
	302: "Payment Required",
	303: "Forbidden",
	304: "Not Found",
	305: "Not Allowed",
	306: "Not Acceptable",
	307: "Proxy Authentication Required",
	308: "Request Time-out",
	309: "Conflict",
	310: "Gone",
	311: "Length Required",
	312: "Precondition Failed",
	313: "Request Entity Too Large",
	314: "Request-URI Too Large",
	315: "Unsupported Media Type",
	316: "Requested Range Not Satisfiable",
	317: "Expectation Failed",
	321: "Misdirected Request",
	322: "Unprocessable Content",
	323: "Locked",
	324: "Failed Dependency",
	325: "Too Early",
	326: "Upgrade Required",
	328: "Precondition Required",
	329: "Too Many Requests",
	331: "Request Header Fields Too Large",
	351: "Unavailable For Legal Reasons",
	399: "Client Closed Request",

	400: "Internal Server Error",
	401: "Not Implemented",
	402: "Bad Gateway",
	403: "Service Temporarily Unavailable",
	404: "Gateway Time-out",
	405: "HTTP Version Not Supported",
	406: "Variant Also Negotiates",
	407: "Insufficient Storage",
	408: "Loop Detected",
	410: "Not Extended",
	411: "Network Authentication Required",
}
