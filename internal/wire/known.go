package wire

// Known is a field name that a gateway treats specially. Recognising it once,
// while parsing, spares a comparison per field and name later.
type Known uint8

// The names. An underscore spelling of the names from KnownXRealIP on is the
// same name with Alias added, since many backends fold "_" and "-".
const (
	KnownNone Known = iota
	KnownConnection
	KnownContentLength
	KnownDate
	KnownExpect
	KnownHost
	KnownKeepAlive
	KnownProxyAuthenticate
	KnownProxyAuthorization
	KnownProxyConnection
	KnownServer
	KnownTE
	KnownTrailer
	KnownTransferEncoding
	KnownUpgrade
	KnownXRealIP
	KnownXForwardedFor
	KnownXForwardedProto
	KnownXForwardedHost
	KnownXForwardedPort
	KnownForwarded
	KnownXConsumerUsername
	KnownXCredentialIdentifier
	KnownXConsumerCustomID

	// Nominated marks a field that the message's own Connection field names as
	// hop-by-hop (RFC 9110 §7.6.1); it is added to the name.
	Nominated Known = 0x40
	// Alias marks an underscore spelling; it is added to the name.
	Alias Known = 0x80
)

// Name is k without Nominated and Alias.
func (k Known) Name() Known { return k &^ (Nominated | Alias) }

// classify recognises a field name.
func classify(name string) Known {
	switch len(name) {
	case 2:
		return either(name, "te", KnownTE)
	case 4:
		return either(name, "host", KnownHost) | either(name, "date", KnownDate)
	case 6:
		return either(name, "expect", KnownExpect) | either(name, "server", KnownServer)
	case 7:
		return either(name, "trailer", KnownTrailer) | either(name, "upgrade", KnownUpgrade)
	case 9:
		return folded(name, "x-real-ip", KnownXRealIP) | either(name, "forwarded", KnownForwarded)
	case 10:
		return either(name, "connection", KnownConnection) | either(name, "keep-alive", KnownKeepAlive)
	case 14:
		return either(name, "content-length", KnownContentLength)
	case 15:
		return folded(name, "x-forwarded-for", KnownXForwardedFor)
	case 16:
		return either(name, "proxy-connection", KnownProxyConnection) |
			folded(name, "x-forwarded-host", KnownXForwardedHost) |
			folded(name, "x-forwarded-port", KnownXForwardedPort)
	case 17:
		return either(name, "transfer-encoding", KnownTransferEncoding) |
			folded(name, "x-forwarded-proto", KnownXForwardedProto)
	case 18:
		return either(name, "proxy-authenticate", KnownProxyAuthenticate)
	case 19:
		return either(name, "proxy-authorization", KnownProxyAuthorization) |
			folded(name, "x-consumer-username", KnownXConsumerUsername)
	case 20:
		return folded(name, "x-consumer-custom-id", KnownXConsumerCustomID)
	case 23:
		return folded(name, "x-credential-identifier", KnownXCredentialIdentifier)
	}
	return KnownNone
}

// either is k if name, of the same length, is known, a lower-case name.
func either(name, known string, k Known) Known {
	for i := range len(known) {
		if name[i] != known[i] && lower(name[i]) != known[i] {
			return KnownNone
		}
	}
	return k
}

// folded is like either, and takes an underscore for a hyphen.
func folded(name, known string, k Known) Known {
	for i := range len(known) {
		switch c := lower(name[i]); {
		case c == known[i]:
		case c == '_' && known[i] == '-':
			k |= Alias
		default:
			return KnownNone
		}
	}
	return k
}
