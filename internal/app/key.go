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

// A key opens the Admin API.
type key struct {
	config.AdminKey
	file string // where it is kept, if Weir made it
}

// openKeys completes the Admin keys: one that is configured without a value is
// read from its file in the data folder, or made.
func (g *Gateway) openKeys(context.Context) error {
	a := &g.Config.Deployment.Admin
	if !g.Config.APISIX.EnableAdmin || !a.KeyRequired {
		return nil
	}
	for _, k := range a.Keys {
		made := key{AdminKey: k}
		if k.Key == "" {
			name := k.Name + ".key"
			if strings.ContainsAny(name, "/\x00") {
				return fmt.Errorf("admin key: a generated key cannot have the name %q", k.Name)
			}
			made.file = filepath.Join(g.Config.Weir.Store.Dir, name)
			text, err := keyFile(made.file)
			if err != nil {
				return fmt.Errorf("admin key: %w", err)
			}
			made.Key = config.Secret(text)
		}
		g.keys = append(g.keys, made)
	}
	return nil
}

// keyFile reads the key in a file, which it makes if there is none. The file
// can be read by its owner alone.
func keyFile(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKeyFile(path)
	}
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", fmt.Errorf("%s is empty; remove it to have a new key", path)
	}
	return text, os.Chmod(path, 0o600)
}

func makeKeyFile(path string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	// A whole file appears under its name or none.
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	text := rand.Text()
	_, err = f.WriteString(text + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return "", err
	}
	if err := os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
		return keyFile(path)
	} else if err != nil {
		return "", err
	}
	return text, nil
}
