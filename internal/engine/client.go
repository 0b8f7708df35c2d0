package engine

import (
	"cmp"
	"net/netip"
	"strings"

	"weir/internal/plugin"
	"weir/internal/wire"
)

// RealIP says which peers report who their client is, and in which header
// (nginx's realip module).
type RealIP struct {
	Header    string
	Recursive bool // the last address that From does not have, instead of the last
	From      func(netip.Addr) bool
}

// identify settles who the client is and what the upstream is told of it
// (apisix-runtime.md §9.1).
func (x *exchange) identify() {
	if x.engine.NoUnderscores {
		dropUnderscores(x.request.Header.Fields())
	}
	x.ctx.Client, x.ctx.ClientPort = x.peer, x.ctx.Peer.Port()
	if r := x.engine.RealIP; r != nil && r.From(x.ctx.Peer.Addr()) {
		if who, ok := r.client(&x.request.Header); ok {
			x.ctx.SetClient(who)
		}
	}
	if !x.engine.Products {
		x.vouch()
	}
}

func dropUnderscores(fields []wire.Field) {
	for i := range fields {
		if strings.IndexByte(fields[i].Name, '_') >= 0 {
			fields[i].Dropped = true
		}
	}
}

// client is who the header names.
func (r *RealIP) client(h *wire.Header) (who netip.AddrPort, ok bool) {
	fields := h.Fields()
	chain := wire.EqualFold(r.Header, "X-Forwarded-For")
	if !chain {
		value, found := h.Get(r.Header)
		if !found {
			return who, false
		}
		who, ok, _ = r.last(value)
		return who, ok
	}
	for i := len(fields) - 1; i >= 0; i-- {
		if fields[i].Known.Name() != wire.KnownXForwardedFor || fields[i].Known&wire.Alias != 0 {
			continue
		}
		next, found, further := r.last(fields[i].Value)
		if found {
			who, ok = next, true
		}
		if !further {
			break
		}
	}
	return who, ok
}

// last is the last address of a list, or the last that is not itself trusted.
// further: the list could be read to its beginning, and all of it is trusted.
func (r *RealIP) last(list string) (who netip.AddrPort, ok, further bool) {
	for more := true; more; {
		var item string
		list, item, more = cutLast(list)
		next, valid := plugin.ParseClient(strings.Trim(item, " \t"))
		if !valid {
			return who, ok, false
		}
		who, ok = next, true
		if !r.Recursive || !r.From(who.Addr()) {
			return who, ok, false
		}
	}
	return who, ok, true
}

func cutLast(list string) (before, last string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return "", list, false
	}
	return list[:i], list[i+1:], true
}

// vouch puts what the gateway knows in place of what the client says in the
// headers that the upstream takes the gateway's word for. They stand in the
// request's header, so that plugins may read, change and remove them.
func (x *exchange) vouch() {
	said := x.drop()
	f := &x.ctx.Forwarded
	f.Proto = cmp.Or(said.Proto, x.ctx.Scheme)
	f.Host = cmp.Or(said.Host, x.request.Host)
	if f.Port = said.Port; f.Port == "" {
		f.Port = x.port()
	}
	h := &x.request.Header
	h.AddValid("X-Forwarded-Proto", f.Proto)
	h.AddValid("X-Forwarded-Host", f.Host)
	h.AddValid("X-Forwarded-Port", f.Port)
}

// drop drops what the client says of itself, in whatever spelling a backend
// could take for it, and returns what is to be believed.
func (x *exchange) drop() (said plugin.Forwarded) {
	bounded := x.engine.Trusted != nil
	trusted := bounded && x.engine.Trusted(x.ctx.Peer.Addr())
	fields := x.request.Header.Fields()
	for i := range fields {
		f := &fields[i]
		if f.Known == wire.KnownNone {
			continue
		}
		believed := trusted && f.Known&(wire.Alias|wire.Nominated) == 0
		switch f.Known.Name() {
		case wire.KnownXForwardedProto:
			f.Dropped = true
			x.believe(believed, &said.Proto, f.Value)
		case wire.KnownXForwardedHost:
			f.Dropped = true
			x.believe(believed, &said.Host, f.Value)
		case wire.KnownXForwardedPort:
			f.Dropped = true
			x.believe(believed, &said.Port, f.Value)
		case wire.KnownForwarded:
			f.Dropped = !believed
		case wire.KnownXForwardedFor:
			f.Dropped = f.Known&wire.Alias != 0 || bounded && !trusted
		}
	}
	return said
}

// believe appends a value that the client says, as in a list.
func (x *exchange) believe(trusted bool, to *string, value string) {
	switch {
	case !trusted || value == "":
	case *to == "":
		*to = value
	default:
		*to += ", " + value
	}
}

// port is the port in the request's Host, else the one we listen on.
func (x *exchange) port() string {
	host := x.request.Host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && i+1 < len(host) && !strings.Contains(host[i:], "]") {
		return host[i+1:]
	}
	return x.serverPort
}
