package apisix

import (
	"errors"
	"time"

	"weir/internal/model"
	"weir/internal/schema"
)

type sslDoc struct {
	ID        id       `json:"id"`
	Type      string   `json:"type"`
	Cert      string   `json:"cert"`
	Key       string   `json:"key"`
	Certs     []string `json:"certs"`
	Keys      []string `json:"keys"`
	SNI       string   `json:"sni"`
	SNIs      []string `json:"snis"`
	Protocols []string `json:"ssl_protocols"`
	Status    *integer `json:"status"`
	Client    *struct {
		CA    string   `json:"ca"`
		Depth *integer `json:"depth"`
		Skip  []string `json:"skip_mtls_uri_regex"`
	} `json:"client"`
	Stapling *struct {
		Enabled    bool     `json:"enabled"`
		SkipVerify bool     `json:"skip_verify"`
		TTL        *integer `json:"cache_ttl"`
	} `json:"ocsp_stapling"`
}

// stapleTTL is the default of ocsp_stapling.cache_ttl.
const stapleTTL = time.Hour

// SSL reads an ssl object. Keys are as they are stored.
func SSL(id string, raw []byte) (*model.SSL, error) {
	var d sslDoc
	if err := unmarshal(raw, &d); err != nil {
		return nil, err
	}
	if len(d.Certs) != len(d.Keys) {
		return nil, errors.New("mismatched number of certs and keys")
	}
	s := &model.SSL{
		ID: id, Client: d.Type == "client", Hosts: one(d.SNI, d.SNIs), Protocols: d.Protocols,
		Disabled: d.Status != nil && *d.Status == 0,
		Pairs:    []model.KeyPair{{Cert: d.Cert, Key: d.Key}},
	}
	for i := range d.Certs {
		s.Pairs = append(s.Pairs, model.KeyPair{Cert: d.Certs[i], Key: d.Keys[i]})
	}
	if c := d.Client; c != nil {
		s.ClientCA, s.SkipMTLSURIs, s.Depth = c.CA, c.Skip, 1
		if c.Depth != nil {
			s.Depth = int(*c.Depth)
		}
	}
	if o := d.Stapling; o != nil && o.Enabled {
		s.Stapling = &model.Stapling{SkipVerify: o.SkipVerify, TTL: stapleTTL}
		if o.TTL != nil {
			s.Stapling.TTL = schema.Seconds(*o.TTL)
		}
	}
	return s, nil
}
