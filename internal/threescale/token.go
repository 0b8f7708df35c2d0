package threescale

import (
	"encoding/json"
	"time"
)

// A Token is a verified JSON Web Token.
type Token struct {
	Raw     string
	Claims  map[string]any // the payload; never changed
	Payload json.RawMessage
	Expires time.Time

	// Of tokens that a product authenticates its callers by.
	clientID string   // of the application that the token was given to
	sum      [32]byte // of Raw
}
