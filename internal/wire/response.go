package wire

import "bytes"

// ReadResponse reads the head of the next response, to a request of the given
// method, into resp (RFC 9112 §4, §6.3). Interim responses (1xx) are returned
// like others: call it again for the final one. After a 101, and after the 2xx
// that answers a CONNECT, the stream is another protocol's, from Rest on.
//
// Errors are as with ReadRequest.
func (r *Reader) ReadResponse(resp *Response, method string) error {
	resp.Reset()
	head, err := r.readHead(false)
	if err != nil {
		return err
	}
	if err := r.parseResponse(resp, head, method); err != nil {
		return r.fail(err)
	}
	r.head = &resp.Header
	r.begin(resp.Length)
	return nil
}

func (r *Reader) parseResponse(resp *Response, head []byte, method string) error {
	eol := bytes.IndexByte(head, '\n')
	if err := statusLine(resp, head[:eol-1]); err != nil {
		return err
	}
	if err := parseFields(&resp.Header, head, eol+1); err != nil {
		return err
	}
	f := facts{}
	if err := f.gather(&resp.Header, r.limits.Tokens); err != nil {
		return err
	}
	if f.chunked && resp.Proto == HTTP10 {
		return ErrMalformed
	}
	resp.Close = f.close || resp.Proto == HTTP10 && !f.keepAlive
	switch {
	case bodyless(resp.Status, method):
		resp.Length = 0
	case f.chunked:
		resp.Length = Chunked
	case f.length >= 0:
		resp.Length = f.length
	default:
		resp.Length, resp.Close = UntilClose, true
	}
	return nil
}

// bodyless reports whether a response ends with its head.
func bodyless(status int, method string) bool {
	return status < 200 || status == 204 || status == 304 || method == "HEAD" ||
		method == "CONNECT" && status < 300
}

// statusLine parses HTTP-version SP status-code [ SP reason-phrase ]. The
// second space is optional since many servers that send no reason omit it.
func statusLine(resp *Response, line []byte) error {
	if len(line) < 12 || line[8] != ' ' {
		return ErrMalformed
	}
	var err error
	if resp.Proto, err = version(line[:8]); err != nil {
		return err
	}
	status := 0
	for _, c := range line[9:12] {
		if !isDigit(c) {
			return ErrMalformed
		}
		status = status*10 + int(c-'0')
	}
	if status < 100 {
		return ErrMalformed
	}
	resp.Status = status
	if len(line) == 12 {
		return nil
	}
	if line[12] != ' ' || !isText(line[13:]) {
		return ErrMalformed
	}
	resp.Reason = view(line[13:])
	return nil
}
