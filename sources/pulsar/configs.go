package pulsar

// ClientSettings is what CONFIGS and CREDENTIALS of a stream say about its client.
// The zero value has every default.
type ClientSettings struct{}
