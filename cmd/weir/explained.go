package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"weir/internal/app"
)

// printExplanation prints an explanation for people.
func printExplanation(to io.Writer, said *app.Explanation) error {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	q := said.Request
	fmt.Fprintf(w, "request\t%s %s%s from %s\n", q.Method, q.Host, q.Path, q.Client)
	if q.Query != "" {
		fmt.Fprintf(w, "query\t%s\n", q.Query)
	}
	printMatch(w, said)
	fmt.Fprintf(w, "revision\t%d\n", said.Revision)
	w.Flush()
	printCandidates(&out, said)
	printPlugins(&out, said)
	printCalls(&out, said)
	_, err := plainWriter{to}.Write(out.Bytes())
	return err
}

func printMatch(w io.Writer, said *app.Explanation) {
	switch {
	case said.Route != nil:
		fmt.Fprintf(w, "route\t%s\n", titled(said.Route.ID, said.Route.Name))
		fmt.Fprintf(w, "matched\t%s\n", strings.TrimSpace(said.MatchedHost+" "+said.MatchedPath))
	case said.Product != nil:
		fmt.Fprintf(w, "product\t%s\n", titled(said.Product.ID, said.Product.Name))
		if said.Status == 0 {
			fmt.Fprintf(w, "mapping rules\t%s\n", or(strings.Join(said.Rules, ", "), "none matches"))
		}
	}
	if said.Service != nil {
		fmt.Fprintf(w, "service\t%s\n", titled(said.Service.ID, said.Service.Name))
	}
	for _, line := range [][2]string{
		{"plugin config", said.PluginConfig}, {"consumer", said.Consumer}, {"credential", said.Credential}, {"consumer group", said.Group},
	} {
		if line[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
		}
	}
	if said.Status != 0 {
		fmt.Fprintf(w, "answer\t%d: %s\n", said.Status, said.Reason)
	}
	for _, note := range said.Notes {
		fmt.Fprintf(w, "note\t%s\n", note)
	}
	if u := said.Upstream; u != nil {
		fmt.Fprintf(w, "upstream\t%s %s %s (%s)\n", u.From, u.Scheme, strings.Join(u.Nodes, " "), or(u.Type, "one node"))
		if u.Connect != "" {
			fmt.Fprintf(w, "timeouts\tconnect %s, send %s, read %s; %d further tries\n", u.Connect, u.Send, u.Read, u.Retries)
		}
	}
}

func printCandidates(out *bytes.Buffer, said *app.Explanation) {
	printRoutes(out, "routes in the order in which they are asked", said.Candidates, said.More)
	printRoutes(out, "routes that suit the request, and that no request meets", said.LeftOut, said.MoreLeftOut)
}

func printRoutes(out *bytes.Buffer, title string, list []app.Candidate, more bool) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", title)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range list {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", titled(c.ID, c.Name), plain(strings.TrimSpace(c.Host+" "+c.Path)), or(c.Why, "this one"))
	}
	if more {
		fmt.Fprintln(w, "  and more")
	}
	w.Flush()
}

func printPlugins(out *bytes.Buffer, said *app.Explanation) {
	if len(said.Plugins) == 0 {
		return
	}
	fmt.Fprintln(out, "\nplugins")
	for _, p := range said.Plugins {
		note := ""
		if p.Replaced {
			note = ", replaced by another of its name"
		}
		fmt.Fprintf(out, "  %s of %s, priority %d%s\n    %s\n", p.Plugin, p.From, p.Priority, note, p.Config)
	}
}

func printCalls(out *bytes.Buffer, said *app.Explanation) {
	if len(said.Calls) == 0 {
		fmt.Fprintln(out, "\nno function of a plugin runs")
		return
	}
	fmt.Fprintln(out, "\nfunctions that run, if each lets the request pass")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range said.Calls {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", c.Phase, c.Plugin, c.From)
	}
	w.Flush()
}

func titled(id, name string) string {
	id, name = plain(id), plain(name)
	if name == "" || name == id {
		return id
	}
	return id + " (" + name + ")"
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
