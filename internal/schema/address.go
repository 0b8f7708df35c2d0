package schema

// Addresses are IP addresses and networks (APISIX: ip_def). The pattern of IPv6
// networks lets through what is none; who uses them parses them.
type Addresses []string

// JSONSchema implements Describer.
func (Addresses) JSONSchema() []byte {
	const octet = `([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])`
	const ipv4 = octet + `\\.` + octet + `\\.` + octet + `\\.` + octet
	const ipv6 = `([a-fA-F0-9]{0,4}:){1,8}(:[a-fA-F0-9]{0,4}){0,8}([a-fA-F0-9]{0,4})?`
	return []byte(`{"type":"array","items":{"anyOf":[` +
		`{"title":"IPv4","type":"string","format":"ipv4"},` +
		`{"title":"IPv4/CIDR","type":"string","pattern":"^` + ipv4 + `/([12]?[0-9]|3[0-2])$"},` +
		`{"title":"IPv6","type":"string","format":"ipv6"},` +
		`{"title":"IPv6/CIDR","type":"string","pattern":"^` + ipv6 + `/[0-9]{1,3}$"}]}}`)
}
