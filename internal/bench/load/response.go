package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

var errResponse = errors.New("malformed response")

// readResponse reads one final response (RFC 9112) and drops its body. close
// says that the connection ends with it.
func readResponse(r *bufio.Reader) (status int, close bool, err error) {
	for {
		length := int64(-1)
		status, length, close, err = readHead(r)
		if err != nil {
			return 0, true, err
		}
		switch {
		case status == 101:
			return status, true, nil
		case status < 200:
			continue
		case status == 204 || status == 304:
			return status, close, nil
		case length == chunked:
			return status, close, dropChunks(r)
		case length == untilClose:
			_, err = io.Copy(io.Discard, r)
			return status, true, err
		}
		_, err = r.Discard(int(length))
		return status, close, err
	}
}

const (
	chunked    = -1
	untilClose = -2
)

func readHead(r *bufio.Reader) (status int, length int64, close bool, err error) {
	line, err := readLine(r)
	if err != nil {
		return 0, 0, true, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' {
		return 0, 0, true, fmt.Errorf("%w: status line %.40q", errResponse, line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil || status < 100 {
		return 0, 0, true, fmt.Errorf("%w: status line %.40q", errResponse, line)
	}
	length, close = untilClose, line[7] == '0'
	for {
		if line, err = readLine(r); err != nil {
			return 0, 0, true, err
		}
		if len(line) == 0 {
			return status, length, close, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")) && length != chunked:
			if length, err = strconv.ParseInt(string(value), 10, 63); err != nil || length < 0 {
				return 0, 0, true, fmt.Errorf("%w: Content-Length %.40q", errResponse, value)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = chunked
		case bytes.EqualFold(name, []byte("Connection")):
			close = close || bytes.EqualFold(value, []byte("close"))
		}
	}
}

func dropChunks(r *bufio.Reader) error {
	for {
		line, err := readLine(r)
		if err != nil {
			return err
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 31)
		if err != nil {
			return fmt.Errorf("%w: chunk size %.40q", errResponse, line)
		}
		if size == 0 {
			break
		}
		if _, err := r.Discard(int(size)); err != nil {
			return err
		}
		if line, err = readLine(r); err != nil || len(line) != 0 {
			return errors.Join(errResponse, err)
		}
	}
	for {
		if line, err := readLine(r); err != nil || len(line) == 0 {
			return err
		}
	}
}

// readLine is the next line without its end; it is valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return nil, fmt.Errorf("%w: line of more than %d bytes", errResponse, r.Size())
	}
	if err == io.EOF && len(line) > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}
