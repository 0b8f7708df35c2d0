// Package schema makes one object out of a configuration type: a Go struct's
// tags give its decoder, defaults, JSON Schema and reference table, so that the
// check and the documents cannot differ.
//
// Every field with a JSON name is a property. The tag doc is its meaning, the
// tag schema holds options separated by commas:
//
//	required            the property must be there
//	secret              the value is stored encrypted (encrypt_fields)
//	elsewhere           not described by the tag but by a constraint (Conditional)
//	default=V           value of an absent property; a default does not satisfy required
//	min= max= exclusiveMin= exclusiveMax=
//	minLen= maxLen=     characters of a string
//	minItems= maxItems= unique
//	minProps= maxProps= closed (no other properties)
//	enum=A|B            the only values
//	type=string|integer other types than the field's Go type says
//	format=F            email, ipv4, ipv6, hostname
//	pattern=RE          PCRE; the last option, it may contain commas
//	description=TEXT    where clients compare the document; the last option, too
//	each.OPTION=V       an option of the items of an array or the values of a map
//
// A default that is an array or an object is JSON and stands last, too. The tag
// of a blank field (_ struct{}) concerns the whole object. Embedded structs are
// part of the struct around them; a pointer tells an absent value from a zero one.
// A type may give its own document (Describer) and tie properties together
// (Constrained).
//
// Checking is done by santhosh-tekuri/jsonschema; its findings are put in the
// words of APISIX's validator.
package schema
