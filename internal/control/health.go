package control

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"weir/internal/health"
	"weir/internal/model"
	"weir/internal/snapshot"
)

// checked is what /v1/healthcheck tells of one object.
type checked struct {
	Name  string `json:"name"` // key of the object in the store
	Type  string `json:"type"`
	Nodes nodes  `json:"nodes"`
}

// nodes is an empty object where there are none: APISIX does not tell an empty
// list from one, and its clients expect that.
type nodes []health.Node

func (n nodes) MarshalJSON() ([]byte, error) {
	if len(n) == 0 {
		return []byte("{}"), nil
	}
	return json.Marshal([]health.Node(n))
}

// kinds are the objects that can have checks, in the order of the list.
// It is immutable.
var kinds = []model.Kind{model.KindRoute, model.KindStreamRoute, model.KindService, model.KindUpstream}

func (c *Config) checked(s snapshot.Checked) checked {
	return checked{c.KeyPrefix + "/" + s.Object.String(), s.Type, s.Nodes}
}

// allHealth is GET /v1/healthcheck.
func (c *Config) allHealth(w http.ResponseWriter, r *http.Request) {
	found := slices.Collect(c.Snapshot().Health)
	slices.SortFunc(found, func(a, b snapshot.Checked) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, a.Object.Kind), slices.Index(kinds, b.Object.Kind)),
			cmp.Compare(a.Object.ID, b.Object.ID))
	})
	list := make([]checked, len(found))
	for i, f := range found {
		list[i] = c.checked(f)
	}
	switch {
	case wantsHTML(r):
		healthPage(w, list)
	case len(list) == 0:
		answer(w, http.StatusOK, struct{}{})
	default:
		answer(w, http.StatusOK, list)
	}
}

// oneHealth is GET /v1/healthcheck/{kind}/{id}.
func (c *Config) oneHealth(w http.ResponseWriter, r *http.Request) {
	dir, id, _ := strings.Cut(r.PathValue("rest"), "/")
	id, _, _ = strings.Cut(id, "/")
	if id == "" {
		answer(w, http.StatusNotFound, failure{"missing src id for src type " + dir})
		return
	}
	i := slices.IndexFunc(kinds, func(k model.Kind) bool { return k.Dir() == dir })
	if i < 0 {
		answer(w, http.StatusBadRequest, failure{"invalid src type " + dir})
		return
	}
	s, key := c.Snapshot(), model.Key{Kind: kinds[i], ID: id}
	found, ok := s.HealthOf(key)
	switch {
	case ok && wantsHTML(r):
		healthPage(w, []checked{c.checked(found)})
	case ok:
		answer(w, http.StatusOK, c.checked(found))
	case s.Exists(key.Kind, id):
		answer(w, http.StatusNotFound, failure{fmt.Sprintf("no checker for %s[%s]", dir, id)})
	default:
		answer(w, http.StatusNotFound, failure{fmt.Sprintf("%s[%s] not found", dir, id)})
	}
}

func wantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// page is immutable. Its table has the columns of APISIX's.
var page = template.Must(template.New("health").Parse(`<html xmlns="http://www.w3.org/1999/xhtml">
<head>
  <title>Weir upstream check status</title>
</head>
<body>
<h1>Weir upstream check status</h1>
<table style="background-color:white" cellspacing="0" cellpadding="3" border="1">
  <tr bgcolor="#C0C0C0">
    <th>Index</th>
    <th>Upstream</th>
    <th>Check type</th>
    <th>Host</th>
    <th>Status</th>
    <th>Success counts</th>
    <th>TCP Failures</th>
    <th>HTTP Failures</th>
    <th>TIMEOUT Failures</th>
  </tr>
{{range .}}  <tr{{if not .Usable}} bgcolor="#FF0000"{{end}}>
    <td>{{.Index}}</td>
    <td>{{.Name}}</td>
    <td>{{.Type}}</td>
    <td>{{.Addr}}</td>
    <td>{{.Status}}</td>
    <td>{{.Counter.Success}}</td>
    <td>{{.Counter.TCP}}</td>
    <td>{{.Counter.HTTP}}</td>
    <td>{{.Counter.Timeout}}</td>
  </tr>
{{end}}</table>
</body>
</html>
`))

type row struct {
	Index            int
	Name, Type, Addr string
	Usable           bool
	health.Node
}

func healthPage(w http.ResponseWriter, list []checked) {
	var rows []row
	for _, c := range list {
		for _, n := range c.Nodes {
			usable := n.Status == health.Healthy.String() || n.Status == health.MostlyHealthy.String()
			rows = append(rows, row{len(rows) + 1, c.Name, c.Type, fmt.Sprintf("%s:%d", n.IP, n.Port), usable, n})
		}
	}
	w.Header().Set("Content-Type", "text/html")
	_ = page.Execute(w, rows) // an error means that the client is gone
}
