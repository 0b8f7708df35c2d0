// Package proxyproto reads and writes the header of the PROXY protocol, versions
// 1 and 2, by which a proxy tells who its client is
// (haproxy.org/download/2.9/doc/proxy-protocol.txt).
package proxyproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// ErrHeader is the error of Read for what is no PROXY header.
var ErrHeader = errors.New("no PROXY protocol header")

// A Header is what the sender says of the connection. The zero Header says
// nothing: the connection is the sender's own (LOCAL, UNKNOWN), or of a kind that
// has no IP addresses.
type Header struct {
	Source, Destination netip.AddrPort
}

// Known says that the header names both ends.
func (h Header) Known() bool { return h.Source.IsValid() && h.Destination.IsValid() }

// The signature of version 2 (section 2.2), the limits of both.
const (
	signature = "\r\n\r\n\x00\r\nQUIT\n"
	fixed     = 16
	maxLine   = 107 // of version 1, with CRLF
	maxTail   = 4096
)

// Read reads one header from r and nothing beyond it: byte by byte where its
// length is not known. Additional TLVs of version 2 are skipped.
func Read(r io.Reader) (Header, error) {
	var start [fixed]byte
	// The shortest header of version 1 is "PROXY UNKNOWN\r\n", of 15 bytes.
	if _, err := io.ReadFull(r, start[:fixed-1]); err != nil {
		return Header{}, cut(err)
	}
	switch {
	case bytes.HasPrefix(start[:], []byte(signature)):
		if _, err := io.ReadFull(r, start[fixed-1:]); err != nil {
			return Header{}, cut(err)
		}
		return readBinary(r, start)
	case bytes.HasPrefix(start[:], []byte("PROXY ")):
		return readLine(r, start[:fixed-1])
	}
	return Header{}, ErrHeader
}

// cut is err, or ErrHeader for an end within the header.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrHeader
	}
	return err
}

// readLine reads the rest of a header of version 1.
func readLine(r io.Reader, start []byte) (Header, error) {
	line := append(make([]byte, 0, maxLine), start...)
	for !bytes.HasSuffix(line, []byte("\r\n")) {
		if len(line) == maxLine || bytes.IndexByte(line, '\n') >= 0 {
			return Header{}, ErrHeader
		}
		line = append(line, 0)
		if _, err := io.ReadFull(r, line[len(line)-1:]); err != nil {
			return Header{}, cut(err)
		}
	}
	return parseLine(string(line[:len(line)-2]))
}

func parseLine(line string) (h Header, err error) {
	fields := strings.Split(line, " ")
	if len(fields) >= 2 && fields[1] == "UNKNOWN" {
		return Header{}, nil
	}
	if len(fields) != 6 || fields[1] != "TCP4" && fields[1] != "TCP6" {
		return Header{}, ErrHeader
	}
	is4 := fields[1] == "TCP4"
	if h.Source, err = addrPort(fields[2], fields[4], is4); err != nil {
		return Header{}, err
	}
	h.Destination, err = addrPort(fields[3], fields[5], is4)
	return h, err
}

func addrPort(addr, port string, is4 bool) (netip.AddrPort, error) {
	a, err := netip.ParseAddr(addr)
	if err != nil || a.Is4() != is4 || a.Zone() != "" {
		return netip.AddrPort{}, ErrHeader
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil || port != strconv.FormatUint(p, 10) {
		return netip.AddrPort{}, ErrHeader
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(p)), nil
}

// readBinary reads what follows the fixed part of version 2.
func readBinary(r io.Reader, start [fixed]byte) (Header, error) {
	command, family := start[12], start[13]
	size := int(binary.BigEndian.Uint16(start[14:]))
	if command>>4 != 2 || command&15 > 1 || size > maxTail {
		return Header{}, ErrHeader
	}
	rest := make([]byte, size)
	if _, err := io.ReadFull(r, rest); err != nil {
		return Header{}, cut(err)
	}
	if command&15 == 0 { // LOCAL
		return Header{}, nil
	}
	length := 0
	switch family >> 4 {
	case 1:
		length = 4
	case 2:
		length = 16
	default: // AF_UNSPEC, AF_UNIX
		return Header{}, nil
	}
	if len(rest) < 2*length+4 {
		return Header{}, ErrHeader
	}
	source, _ := netip.AddrFromSlice(rest[:length])
	destination, _ := netip.AddrFromSlice(rest[length : 2*length])
	ports := rest[2*length:]
	return Header{
		Source:      netip.AddrPortFrom(source.Unmap(), binary.BigEndian.Uint16(ports)),
		Destination: netip.AddrPortFrom(destination.Unmap(), binary.BigEndian.Uint16(ports[2:])),
	}, nil
}

// Append appends h as version 1 writes it.
func (h Header) Append(dst []byte) []byte {
	source, destination := h.Source.Addr().Unmap(), h.Destination.Addr().Unmap()
	switch {
	case !h.Known():
		return append(dst, "PROXY UNKNOWN\r\n"...)
	case source.Is4() && destination.Is4():
		dst = append(dst, "PROXY TCP4 "...)
	default:
		dst = append(dst, "PROXY TCP6 "...)
		source, destination = wide(source), wide(destination)
	}
	dst = append(source.WithZone("").AppendTo(dst), ' ')
	dst = append(destination.WithZone("").AppendTo(dst), ' ')
	dst = append(strconv.AppendUint(dst, uint64(h.Source.Port()), 10), ' ')
	return append(strconv.AppendUint(dst, uint64(h.Destination.Port()), 10), '\r', '\n')
}

// wide is an address as TCP6 has it.
func wide(a netip.Addr) netip.Addr { return netip.AddrFrom16(a.As16()) }
