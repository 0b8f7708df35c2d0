package threescale

// Managed is an answer of the management API.
type Managed struct {
	Status int
	Type   string // Content-Type
	Body   []byte
}
