package admin

import (
	"weir/internal/document"
)

// seal encrypts the secrets in an object that is about to be stored: private
// keys always, the secrets of plugins if the configuration says so.
func (a *API) seal(res *resource, v *document.Value) {
	for _, path := range res.keys {
		at := v
		for _, name := range path {
			at = at.Get(name)
		}
		switch {
		case at.Is(document.String):
			at.Text = a.deps.Ring.EncryptKey(at.Text)
		case at.Is(document.Array):
			for _, k := range at.Items {
				if k.Is(document.String) {
					k.Text = a.deps.Ring.EncryptKey(k.Text)
				}
			}
		}
	}
	if a.cfg.EncryptFields {
		a.eachPlugin(res, v, a.deps.Ring.EncryptFields)
	}
}

// open decrypts what seal encrypted of plugins.
func (a *API) open(res *resource, v *document.Value) {
	if a.cfg.EncryptFields {
		a.eachPlugin(res, v, a.deps.Ring.DecryptFields)
	}
}

// eachPlugin calls edit with the configuration of every plugin in an object and
// the paths of its secrets.
func (a *API) eachPlugin(res *resource, v *document.Value, edit func(*document.Value, []string)) {
	confs := v.Get("plugins")
	if !confs.Is(document.Object) || res.plugins == noPlugins || res.plugins == streamPlugins {
		return
	}
	for _, m := range confs.Members {
		spec, ok := a.plugins[m.Name]
		if !ok {
			continue
		}
		schema := spec.ConfigSchema()
		if held := spec.CredentialSchema(); res.plugins == ownerPlugins && held != nil {
			schema = held
		}
		edit(m.Value, schema.Secrets())
	}
}
