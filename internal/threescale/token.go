package threescale

import "encoding/json"

// A Token is a verified JSON Web Token.
type Token struct {
	Raw     string
	Claims  map[string]any // the payload; never changed
	Payload json.RawMessage
}
