package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/transfer"
)

// A column is a heading and how its cells are made.
type column struct {
	name string
	cell func(*document.Value) string
}

// table prints objects in columns.
func table(w io.Writer, kind model.Kind, list []transfer.Listed) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	columns := columnsOf(kind)
	heads := []string{"ID"}
	for _, c := range columns {
		heads = append(heads, c.name)
	}
	fmt.Fprintln(t, strings.Join(heads, "\t"))
	for _, l := range list {
		cells := []string{l.Key.ID[strings.LastIndexByte(l.Key.ID, '/')+1:]}
		if kind == model.KindSecret {
			cells[0] = l.Key.ID
		}
		for _, c := range columns {
			cells = append(cells, short(c.cell(l.Value), false))
		}
		for i, cell := range cells {
			cells[i] = plain(cell)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

func columnsOf(kind model.Kind) []column {
	name, plugins := column{"NAME", text("name")}, column{"PLUGINS", members("plugins")}
	switch kind {
	case model.KindRoute:
		return []column{
			name,
			{"URI", text("uri", "uris")},
			{"HOST", text("host", "hosts")},
			{"METHODS", text("methods")},
			{"TO", destination},
			plugins,
			{"STATUS", status},
		}
	case model.KindStreamRoute:
		return []column{name, {"PORT", text("server_port")}, {"SNI", text("sni")}, {"TO", destination}, plugins}
	case model.KindService:
		return []column{name, {"HOSTS", text("hosts")}, {"TO", destination}, plugins}
	case model.KindUpstream:
		return []column{name, {"TYPE", text("type")}, {"SCHEME", text("scheme")}, {"NODES", nodes}}
	case model.KindConsumer:
		return []column{{"GROUP", text("group_id")}, plugins}
	case model.KindSSL:
		return []column{{"SNI", text("sni", "snis")}, {"TYPE", text("type")}, {"STATUS", status}}
	case model.KindPluginMetadata, model.KindGlobalRule:
		return []column{plugins}
	case model.KindProto:
		return []column{name}
	case model.KindSecret:
		return []column{{"URI", text("uri", "endpoint_url")}}
	}
	return []column{name, plugins}
}

// text shows the first of several members that is there; lists with commas.
func text(names ...string) func(*document.Value) string {
	return func(v *document.Value) string {
		for _, n := range names {
			if s, ok := v.Get(n).Scalar(); ok {
				return s
			}
			if list := v.Get(n); list.Is(document.Array) {
				var parts []string
				for _, item := range list.Items {
					s, _ := item.Scalar()
					parts = append(parts, s)
				}
				return strings.Join(parts, ",")
			}
		}
		return ""
	}
}

// members shows the names in an object.
func members(name string) func(*document.Value) string {
	return func(v *document.Value) string {
		var names []string
		if o := v.Get(name); o.Is(document.Object) {
			for _, m := range o.Members {
				names = append(names, m.Name)
			}
		}
		return strings.Join(names, ",")
	}
}

func status(v *document.Value) string {
	if s, ok := v.Get("status").Scalar(); ok && s == "0" {
		return "off"
	}
	return "on"
}

// destination shows where requests go.
func destination(v *document.Value) string {
	if id, ok := v.Get("upstream_id").Scalar(); ok {
		return "upstreams/" + id
	}
	if v.Get("upstream") != nil {
		return nodes(v.Get("upstream"))
	}
	if id, ok := v.Get("service_id").Scalar(); ok {
		return "services/" + id
	}
	return ""
}

// nodes shows the addresses of an upstream.
func nodes(v *document.Value) string {
	if name, ok := v.Get("service_name").Scalar(); ok {
		kind, _ := v.Get("discovery_type").Scalar()
		return kind + ":" + name
	}
	list := v.Get("nodes")
	if list.Is(document.Object) {
		return members("nodes")(v)
	}
	var parts []string
	if list.Is(document.Array) {
		for _, n := range list.Items {
			host, _ := n.Get("host").Scalar()
			if port, ok := n.Get("port").Scalar(); ok {
				host += ":" + port
			}
			parts = append(parts, host)
		}
	}
	return strings.Join(parts, ",")
}
