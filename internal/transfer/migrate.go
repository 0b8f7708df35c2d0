package transfer

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/dialect/apisix"
	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/schema"
)

// The groups of findings, in the order of a report.
const (
	GroupPlugins    = "plugins"
	GroupLua        = "lua"
	GroupUpstreams  = "upstreams"
	GroupCompile    = "compile"
	GroupDuplicates = "duplicates"
	GroupSecrets    = "secrets"
	GroupKinds      = "kinds"
	GroupStore      = "store"
	GroupConfig     = "config"
	GroupNginx      = "nginx"
)

// Groups are the groups with their titles, in order.
func Groups() [][2]string {
	return [][2]string{
		{GroupPlugins, "Plugins that this build does not have, or that config.yaml does not list"},
		{GroupLua, "Lua, which Weir does not run"},
		{GroupUpstreams, "Upstreams that this build cannot reach"},
		{GroupCompile, "Objects that do not compile"},
		{GroupDuplicates, "Keys that several consumers claim"},
		{GroupSecrets, "Secrets that the keyring does not open"},
		{GroupKinds, "Objects that are kept, but that nothing runs by"},
		{GroupStore, "What the store holds that is no object"},
		{GroupConfig, "Keys of config.yaml that change nothing"},
		{GroupNginx, "Snippets for nginx"},
	}
}

// A Finding is one thing that would behave differently in Weir.
type Finding struct {
	Group   string   `json:"group"`
	What    string   `json:"what"`              // "limit-count", "filter_func", a message
	Effect  string   `json:"effect"`            // what Weir does
	Objects []string `json:"objects,omitempty"` // "routes/1"; empty: it is about config.yaml
}

// A Fault is why an object would not run.
type Fault struct {
	Key         model.Key
	Text        string
	Unsupported bool // this version does not have what the object asks for
}

// A Verdict is what the compiler of this build says of a configuration. An
// object may have several faults.
type Verdict struct {
	Faults []Fault
	Idle   []model.Kind // kinds that nothing runs by
}

// A Setting is a key of config.yaml that changes nothing.
type Setting struct{ Path, Why string }

// Migrate reports what of a configuration of APISIX would behave differently.
// The verdict is the compiler's on the objects of Stored.
func (s *Schemas) Migrate(from *State, verdict Verdict, settings []Setting) []Finding {
	m := &migration{schemas: s, findings: map[finding]*Finding{}}
	owners := map[string][]model.Key{}
	for _, key := range from.Keys() {
		v := from.Objects[key]
		m.plugins(key, v)
		m.lua(key, v)
		m.secrets(key, v)
		s.claims(key, v, owners)
	}
	m.duplicates(owners)
	for _, f := range verdict.Faults {
		m.fault(f)
	}
	for _, kind := range verdict.Idle {
		for _, key := range from.Keys() {
			if key.Kind == kind {
				m.add(GroupKinds, strings.ReplaceAll(kind.Dir(), "_", " "), "they have no effect on traffic", key)
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(from.Broken), compareKeys) {
		m.add(GroupStore, from.Broken[key], "it is skipped, as in APISIX", key)
	}
	for _, setting := range settings {
		group := GroupConfig
		if strings.Contains(setting.Path, "_snippet") {
			group = GroupNginx
		}
		m.setting(group, setting)
	}
	return m.report()
}

// Stored are the objects of a State as a store has them.
func (s *State) Stored() []model.Object {
	var out []model.Object
	for i, key := range s.Keys() {
		v := withID(key, s.Objects[key])
		if id := v.Get("id"); id != nil {
			id.Text = storedID(key)
		}
		// One revision each: who comes first is not known any more.
		rev := int64(i + 1)
		out = append(out, model.Object{Key: key, Created: rev, Modified: rev, Raw: v.Append(nil)})
	}
	return out
}

// A finding tells findings apart.
type finding struct{ group, what, effect string }

type migration struct {
	schemas  *Schemas
	findings map[finding]*Finding
	missing  map[string]bool // object NUL plugin, already reported
}

func (m *migration) add(group, what, effect string, key model.Key) {
	at := finding{group, what, effect}
	f := m.findings[at]
	if f == nil {
		f = &Finding{Group: group, What: what, Effect: effect}
		m.findings[at] = f
	}
	f.Objects = append(f.Objects, key.String())
}

func (m *migration) setting(group string, s Setting) {
	m.findings[finding{group, s.Path, s.Why}] = &Finding{Group: group, What: s.Path, Effect: s.Why}
}

func (m *migration) report() []Finding {
	rank := map[string]int{}
	for i, g := range Groups() {
		rank[g[0]] = i
	}
	var out []Finding
	for _, f := range m.findings {
		slices.Sort(f.Objects)
		f.Objects = slices.Compact(f.Objects)
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank[a.Group], rank[b.Group]), cmp.Compare(a.What, b.What), cmp.Compare(a.Effect, b.Effect),
			slices.Compare(a.Objects, b.Objects))
	})
	return out
}

// stays says what becomes of an object that does not run.
func stays(kind model.Kind) string {
	switch kind {
	case model.KindRoute:
		return "the route answers 503"
	case model.KindGlobalRule:
		return "every request answers 503"
	case model.KindConsumer, model.KindCredential:
		return "nobody is recognised by it"
	}
	return "what uses it does not serve"
}

// plugins looks for plugins that are not in this build.
func (m *migration) plugins(key model.Key, v *document.Value) {
	if key.Kind == model.KindPluginMetadata {
		if _, ours := m.schemas.plugins[key.ID]; !ours {
			m.add(GroupPlugins, key.ID, "its metadata has no effect", key)
		}
		return
	}
	confs := v.Get("plugins")
	if !confs.Is(document.Object) || key.Kind == model.KindStreamRoute {
		return
	}
	for _, c := range confs.Members {
		if _, ours := m.schemas.plugins[c.Name]; !ours {
			m.plugin(key, c.Name)
		}
	}
}

func (m *migration) plugin(key model.Key, name string) {
	at := key.String() + "\x00" + name
	if m.missing[at] {
		return
	}
	if m.missing == nil {
		m.missing = map[string]bool{}
	}
	m.missing[at] = true
	_, ours := m.schemas.plugins[name]
	switch {
	case strings.HasPrefix(name, "serverless-"):
		m.add(GroupLua, "plugin "+name, stays(key.Kind), key)
	case !ours && !slices.Contains(apisix.PluginNames(), name):
		m.add(GroupLua, "plugin "+name+", which is not one of APISIX's own", stays(key.Kind), key)
	default:
		m.add(GroupPlugins, name, stays(key.Kind), key)
	}
}

// lua looks for code in an object.
func (m *migration) lua(key model.Key, v *document.Value) {
	for _, name := range []string{"filter_func", "script"} {
		if v.Get(name) != nil {
			m.add(GroupLua, name, stays(key.Kind), key)
		}
	}
	confs := v.Get("plugins")
	if !confs.Is(document.Object) {
		return
	}
	for _, c := range confs.Members {
		if dotted(c.Value, "_meta.pre_function") != nil {
			m.add(GroupLua, "_meta.pre_function", stays(key.Kind), key)
		}
	}
}

// secrets looks for values that are sealed with a key that is not in the ring.
func (m *migration) secrets(key model.Key, v *document.Value) {
	ring := m.schemas.ring
	v = clone(v)
	if m.schemas.encrypt {
		m.schemas.eachSecret(key, v, func(plugin, text string) string {
			if _, opens := ring.Decrypt(text); !opens && looksSealed(text) {
				m.add(GroupSecrets, "secret of plugin "+plugin, "its stored form is taken for the secret; the keys belong into apisix.data_encryption.keyring", key)
			}
			return text
		})
	}
	eachPrivateKey(key.Kind, v, func(text string) string {
		if _, opens := ring.OpenKey(text); !opens && !schema.IsReference(text) {
			m.add(GroupSecrets, "private key", "the certificate cannot be used; the keys belong into apisix.data_encryption.keyring", key)
		}
		return text
	})
}

// looksSealed says that a text has the form of AES blocks in base64.
func looksSealed(text string) bool {
	const block = 16
	b, err := base64.StdEncoding.DecodeString(text)
	return err == nil && len(b) > 0 && len(b)%block == 0
}

// keyMember says by which member an authenticating plugin finds a consumer
// (apisix-admin.md §5).
func keyMember(plugin string) string {
	switch plugin {
	case "key-auth", "jwt-auth":
		return "key"
	case "basic-auth":
		return "username"
	case "hmac-auth":
		return "key_id"
	case "ldap-auth", "ldap-auth-advanced":
		return "user_dn"
	}
	return ""
}

// claims notes under which keys plugins find a consumer or credential.
func (s *Schemas) claims(key model.Key, v *document.Value, owners map[string][]model.Key) {
	confs := v.Get("plugins")
	if !holds(key.Kind) || !confs.Is(document.Object) {
		return
	}
	open := clone(v)
	s.Open(key, open)
	for _, c := range open.Get("plugins").Members {
		name := keyMember(c.Name)
		if held := c.Value.Get(name); name != "" && held.Is(document.String) && !schema.IsReference(held.Text) {
			at := c.Name + "\x00" + held.Text
			owners[at] = append(owners[at], key)
		}
	}
}

func (m *migration) duplicates(owners map[string][]model.Key) {
	for at, keys := range owners {
		if len(keys) < 2 {
			continue
		}
		plugin, _, _ := strings.Cut(at, "\x00")
		f := &Finding{
			Group: GroupDuplicates, What: fmt.Sprintf("one %s of plugin %s", keyMember(plugin), plugin),
			Effect: "the one that was created first has it; the Admin API refuses to write another",
		}
		for _, k := range keys {
			f.Objects = append(f.Objects, k.String())
		}
		m.findings[finding{GroupDuplicates, plugin, strings.Join(f.Objects, " ")}] = f
	}
}

// fault takes what the compiler said, unless it is known from the object.
func (m *migration) fault(f Fault) {
	if name, ok := strings.CutPrefix(f.Text, "unknown plugin ["); ok {
		m.plugin(f.Key, strings.TrimSuffix(name, "]"))
		return
	}
	for _, known := range []string{"filter_func and script (Lua)", "_meta.pre_function", "belongs to several"} {
		if strings.Contains(f.Text, known) {
			return
		}
	}
	effect := "it does not run"
	if f.Unsupported {
		effect = stays(f.Key.Kind)
	}
	if rest, ok := strings.CutPrefix(f.Text, "upstream "); ok && f.Unsupported {
		_, what, _ := strings.Cut(rest, ": ")
		what, _, _ = strings.Cut(what, ": ")
		m.add(GroupUpstreams, what, effect, f.Key)
		return
	}
	m.add(GroupCompile, f.Text, effect, f.Key)
}
