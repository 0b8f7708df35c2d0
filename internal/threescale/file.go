package threescale

import (
	"errors"
	"io"
	"os"
)

// largestFile is the size in bytes that a file of certificates or keys may have.
const largestFile = 1 << 20

// ReadFile reads a file of certificates or keys.
func ReadFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(errors.New(path+" is no plain file"), err)
	}
	text, err := io.ReadAll(io.LimitReader(f, largestFile+1))
	if err == nil && len(text) > largestFile {
		err = errors.New(path + " is larger than certificates are")
	}
	return string(text), err
}
