package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "weir/"

// floors says what a package may import from this module. A name ending in /...
// stands for the packages below it. A package that is not here fails the test:
// placing it is a decision, made in review. Packages not yet written may be here.
var floors = map[string][]string{
	// 0: knows nothing of gateways
	"internal/wire":       {},
	"internal/schema":     {"internal/document"},
	"internal/cow":        {},
	"internal/monotonic":  {},
	"internal/cache":      {"internal/monotonic"},
	"internal/listen":     {},
	"internal/meter":      {"internal/monotonic"},
	"internal/batch":      {"internal/monotonic"},
	"internal/limit":      {},
	"internal/document":   {},
	"internal/keyring":    {"internal/document"},
	"internal/resolve":    {},
	"internal/proxyproto": {},
	"internal/secret":     {"internal/document"},
	"internal/protofile":  {},
	"internal/pemkey":     {},
	"internal/durable":    {},
	"internal/staple":     {},
	"internal/leaktest":   {},

	// 1: the vocabulary, the contract
	"internal/model":  {"internal/schema"},
	"internal/plugin": {"internal/schema", "internal/wire", "internal/model", "internal/meter"},

	// 2: parts
	"internal/expr":              {"internal/plugin", "internal/wire", "internal/document"},
	"internal/health":            {"internal/schema", "internal/wire"},
	"internal/upstream":          {"internal/model", "internal/wire", "internal/meter", "internal/health", "internal/resolve", "internal/upstream/..."},
	"internal/upstream/...":      {"internal/wire", "internal/monotonic"},
	"internal/discovery":         {"internal/upstream", "internal/model", "internal/schema"},
	"internal/discovery/...":     {"internal/discovery", "internal/discovery/consul", "internal/schema", "internal/model"},
	"internal/cert":              {"internal/model", "internal/cow", "internal/expr", "internal/staple"},
	"internal/redisclient":       {"internal/plugin", "internal/schema"},
	"internal/quota":             {"internal/monotonic", "internal/plugin", "internal/schema", "internal/expr", "internal/limit", "internal/redisclient"},
	"internal/logentry":          {"internal/plugin", "internal/schema", "internal/expr", "internal/wire", "internal/document", "internal/batch", "internal/meter"},
	"internal/plugins":           {"internal/plugin", "internal/plugins/..."},
	"internal/plugins/...":       {"internal/monotonic", "internal/plugin", "internal/schema", "internal/expr", "internal/limit", "internal/redisclient", "internal/quota", "internal/logentry", "internal/meter", "internal/wire", "internal/document", "internal/protofile"},
	"internal/dialect/apisix":    {"internal/model", "internal/schema", "internal/keyring", "internal/document"},
	"internal/dialect/apicast":   {"internal/model", "internal/schema", "internal/keyring", "internal/document"},
	"internal/threescale":        {"internal/monotonic", "internal/cache", "internal/upstream", "internal/plugin", "internal/model", "internal/schema", "internal/expr", "internal/meter", "internal/wire", "internal/document", "internal/threescale/...", "internal/dialect/apicast"},
	"internal/threescale/...":    {"internal/plugin", "internal/expr", "internal/wire", "internal/document", "internal/meter"},
	"internal/policies":          {"internal/plugin", "internal/policies/..."},
	"internal/policies/...":      {"internal/cache", "internal/staple", "internal/plugin", "internal/schema", "internal/expr", "internal/limit", "internal/redisclient", "internal/meter", "internal/wire", "internal/document", "internal/model", "internal/threescale", "internal/threescale/...", "internal/dialect/apicast"},
	"internal/plugin/plugintest": {"internal/plugin", "internal/wire", "internal/meter", "internal/model"},

	"internal/threescale/threescaletest": {
		"internal/threescale", "internal/plugin", "internal/plugin/plugintest", "internal/meter", "internal/model", "internal/dialect/apicast",
		"internal/upstream",
	},

	"internal/redisclient/redistest":   {},
	"internal/discovery/discoverytest": {"internal/discovery", "internal/upstream", "internal/model"},

	// 3: what a request and a change pass through
	"internal/plan":         {"internal/plugin", "internal/expr"},
	"internal/router":       {"internal/model", "internal/expr", "internal/cow", "internal/plugin"},
	"internal/accesslog":    {"internal/plugin", "internal/expr", "internal/wire"},
	"internal/config":       {"internal/wire", "internal/schema", "internal/cow", "internal/meter", "internal/limit", "internal/document", "internal/keyring"},
	"internal/source/etcd":  {"internal/monotonic", "internal/model", "internal/dialect/..."},
	"internal/source/embed": {"internal/model", "internal/dialect/...", "internal/source/etcd"},
	"internal/source/declared": {
		"internal/model", "internal/schema", "internal/plugin", "internal/dialect/...", "internal/document",
	},
	"internal/source/file":       {"internal/model", "internal/plugin", "internal/dialect/...", "internal/document", "internal/source/declared"},
	"internal/source/standalone": {"internal/durable", "internal/model", "internal/plugin", "internal/dialect/...", "internal/document", "internal/source/declared"},
	"internal/source/saved":      {"internal/model", "internal/durable"},
	"internal/source/portal":     {"internal/monotonic", "internal/model", "internal/plugin", "internal/dialect/...", "internal/document"},

	// 4: states
	"internal/snapshot": {
		"internal/wire", "internal/schema", "internal/cow", "internal/meter", "internal/limit", "internal/document", "internal/keyring",
		"internal/model", "internal/plugin",
		"internal/expr", "internal/upstream", "internal/health", "internal/cert", "internal/staple", "internal/dialect/...",
		"internal/plan", "internal/router", "internal/accesslog", "internal/threescale",
	},

	// 5: the data plane, the write side, the view from inside
	"internal/engine": {
		"internal/cert", "internal/listen", "internal/monotonic",
		"internal/wire", "internal/plugin", "internal/plan", "internal/upstream", "internal/snapshot",
		"internal/meter", "internal/accesslog", "internal/expr", "internal/router", "internal/threescale",
	},
	"internal/engine/l4": {
		"internal/cert", "internal/plugin", "internal/plan", "internal/upstream", "internal/snapshot", "internal/wire",
		"internal/listen", "internal/monotonic",
		"internal/proxyproto",
	},
	"internal/engine/...": {"internal/engine", "internal/engine/...", "internal/wire", "internal/plugin"},
	"internal/admin": {
		"internal/model", "internal/schema", "internal/plugin", "internal/dialect/...", "internal/source/...",
		"internal/snapshot", "internal/keyring", "internal/document",
	},
	"internal/control": {
		"internal/snapshot", "internal/health", "internal/source/...", "internal/model", "internal/schema", "internal/plugin", "internal/dialect/...", "internal/document",
	},
	"internal/management": {"internal/source/portal", "internal/dialect/apicast", "internal/document", "internal/plugin"},
	"internal/transfer":   {"internal/model", "internal/schema", "internal/document", "internal/keyring", "internal/dialect/...", "internal/source/..."},

	// 6: assembly and instruments
	"internal/app":          {"internal/..."},
	"internal/bench":        {"internal/bench/...", "internal/wire"},
	"internal/bench/...":    {"internal/wire"},
	"internal/echo":         {"internal/wire"},
	"internal/profile":      {},
	"internal/archtest":     {},
	"internal/weirtest":     {"internal/plan", "internal/plugin"},
	"internal/weirtest/...": {"internal/plugin"},

	"internal/weirtest/planted/clock": {"internal/plugin"},

	"bench/forwarder": {},
	"cmd/weir":        {"internal/app", "internal/bench", "internal/config", "internal/document", "internal/echo", "internal/model", "internal/plugins", "internal/profile", "internal/transfer"},
}

// testOnly are helpers that no product code imports.
var testOnly = []string{"internal/plugin/plugintest", "internal/threescale/threescaletest", "internal/redisclient/redistest", "internal/discovery/discoverytest", "internal/weirtest", "internal/weirtest/planted", "internal/weirtest/planted/clock", "internal/leaktest", "internal/archtest"}

// noHTTP are the packages that speak HTTP by wire alone.
var noHTTP = []string{"internal/wire", "internal/plugin", "internal/plan", "internal/router", "internal/upstream", "internal/engine"}

// A pkg is what go list says of a package.
type pkg struct {
	ImportPath, Dir string
	Imports         []string
	GoFiles         []string
}

func (p *pkg) name() string { return strings.TrimPrefix(p.ImportPath, module) }

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Imports,GoFiles", module+"...")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for dec := json.NewDecoder(out); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(all) < 5 {
		t.Fatalf("go list knows %d packages", len(all))
	}
	return all
}

func TestFloors(t *testing.T) {
	for _, p := range packages(t) {
		for _, problem := range floorProblems(p) {
			t.Error(problem)
		}
	}
}

func floorProblems(p pkg) (problems []string) {
	name := p.name()
	allowed, placed := floors[name]
	if !placed {
		allowed, placed = floors[parent(name)+"/..."]
	}
	if !placed {
		return []string{name + " has no floor: place it in archtest, or think again"}
	}
	for _, imp := range p.Imports {
		imp, ours := strings.CutPrefix(imp, module)
		switch {
		case !ours && imp == "net/http" && slices.Contains(noHTTP, name):
			problems = append(problems, name+" must not import net/http")
		case !ours:
		case slices.Contains(testOnly, imp) && !slices.Contains(testOnly, name):
			problems = append(problems, name+" must not import "+imp+", which is for tests")
		case !match(allowed, imp):
			problems = append(problems, name+" must not import "+imp)
		}
	}
	return problems
}

func match(allowed []string, imp string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		tree, isTree := strings.CutSuffix(a, "...")
		return a == imp || isTree && strings.HasPrefix(imp, tree)
	})
}

func parent(name string) string { return name[:max(strings.LastIndexByte(name, '/'), 0)] }

// TestFloorsRefuse makes sure that the test above can fail.
func TestFloorsRefuse(t *testing.T) {
	for _, c := range []struct{ from, imp, want string }{
		{"internal/nowhere", "fmt", "has no floor"},
		{"internal/plugins/a", "weir/internal/plugins/b", "must not import internal/plugins/b"},
		{"internal/engine", "weir/internal/model", "must not import internal/model"},
		{"internal/engine", "net/http", "must not import net/http"},
		{"internal/plan", "weir/internal/plugin/plugintest", "which is for tests"},
		{"internal/plugins/a", "weir/internal/plugin", ""},
		{"internal/admin", "net/http", ""},
		{"internal/app", "weir/internal/engine", ""},
	} {
		got := strings.Join(floorProblems(pkg{ImportPath: module + c.from, Imports: []string{c.imp}}), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s importing %s: got %q, want %q", c.from, c.imp, got, c.want)
		}
	}
}
