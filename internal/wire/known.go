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
