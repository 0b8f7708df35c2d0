package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weir/internal/config"
)

// instanceFile holds the id of this instance, in the data folder or, where APISIX
// was before, beside config.yaml.
const instanceFile = "apisix.uid"

// openInstance finds the id of this gateway. One that cannot be kept is that of
// the process.
func (g *Gateway) openInstance(context.Context) error {
	if g.Config.Deployment.Provider() == config.NoProvider {
		g.id = newUUID() // there is no data folder
		return nil
	}
	var err error
	if g.id, err = instanceID(g.Config); err != nil {
		g.log.Warn("the id of this instance is not kept", "err", err)
	}
	return nil
}

// instanceID is what tells this gateway from others (apisix-config.md section
// 1): what a file has, else apisix.id, else a random UUID, which is then kept. An
// error means that it is not.
func instanceID(c *config.Config) (string, error) {
	kept := filepath.Join(c.Weir.Store.Dir, instanceFile)
	places := []string{kept}
	if c.File != "" {
		places = append([]string{filepath.Join(filepath.Dir(c.File), instanceFile)}, kept)
	}
	for _, place := range places {
		b, err := os.ReadFile(place)
		switch id := strings.TrimSpace(string(b)); {
		case err == nil && id != "":
			return id, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return newUUID(), err
		}
	}
	id := c.APISIX.ID
	if id == "" {
		id = newUUID()
	}
	err := os.MkdirAll(c.Weir.Store.Dir, 0o700)
	if err == nil {
		err = os.WriteFile(kept, []byte(id+"\n"), 0o600)
	}
	return id, err
}

// newUUID is a random UUID (RFC 9562 section 5.4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
