package snapshot

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"weir/internal/dialect/apisix"
	"weir/internal/model"
)

// A reading is what the document of a consumer or credential says.
type reading struct {
	plugins model.Plugins
	claims  []claim // keys of its authenticating plugins
	err     error   // why some of it cannot be read; that part claims nothing
}

func (x *compiler) readRecord(kind model.Kind, id string, raw []byte) (r reading) {
	if kind == model.KindCredential {
		c, err := apisix.Credential(id, raw)
		if err != nil {
			return reading{err: err}
		}
		r.plugins = c.Plugins
	} else {
		c, err := apisix.Consumer(id, raw)
		if err != nil {
			return reading{err: err}
		}
		r.plugins = c.Plugins
	}
	var faults []error
	for name, raw := range r.plugins {
		spec, known := x.all[name]
		if !known || spec.CredentialSchema() == nil {
			continue
		}
		key, _, err := spec.DecodeCredential(x.config.Open(spec.Spec, raw, true))
		switch {
		case err != nil:
			faults = append(faults, err)
		case secretRef(key):
			faults = append(faults, fmt.Errorf("plugin %s: the secret reference of its key is not resolved", name))
		default:
			r.claims = append(r.claims, claim{name, key})
		}
	}
	r.err = errors.Join(faults...)
	return r
}

// ahead is how many objects of a step are read before they are put. With fewer
// than few, reading them on several processors is not worth the while.
const ahead, few = 4096, 64

// readAhead reads the consumers and credentials among objects that are about to be
// put: it is much of the work of a start. It sends a reading for each object of each
// part, ahead objects long; nil: it was not worth the while. It reads a part while
// the one before is put.
func (x *compiler) readAhead(objects []model.Object) <-chan []reading {
	parts := make(chan []reading, 1)
	if len(objects) < few {
		parts <- nil
		return parts
	}
	go func() {
		for some := range slices.Chunk(objects, ahead) {
			parts <- x.readAll(some)
		}
	}()
	return parts
}

// readAll reads consumers and credentials on all processors.
func (x *compiler) readAll(objects []model.Object) []reading {
	found := make([]reading, len(objects))
	workers := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(objects); i += workers {
				if o := &objects[i]; o.Kind == model.KindConsumer || o.Kind == model.KindCredential {
					found[i] = x.readRecord(o.Kind, o.ID, o.Raw)
				}
			}
		})
	}
	wg.Wait()
	return found
}
