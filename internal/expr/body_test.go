package expr

import (
	"strconv"
	"strings"
	"testing"

	"weir/internal/document"
	"weir/internal/plugin"
)

// show is a variable's value as JSON would write it, or "(absent)".
func show(t *testing.T, name string, c *plugin.Ctx) string {
	t.Helper()
	v, err := Variable(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	b := getBuffer()
	defer putBuffer(b)
	got := v.typed(c, b)
	if got.kind == text {
		return strconv.Quote(got.text)
	}
	out, ok := got.append(nil)
	if !ok {
		return missing
	}
	return string(out)
}

func TestPostArg(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	for _, c := range []struct{ kind, body, name, want string }{
		{form, "a=b", "a", `"b"`},
		{form + ";charset=utf-8", "a=b", "a", `"b"`},
		{form, "a=b&a=c", "a", `"b"`},
		{form, "x&a=b", "x", `true`},
		{form, "x&x=1", "x", `true`},
		{form, "x=&a=b", "x", `""`},
		{form, "=b&a=c", "a", `"c"`},
		{form, "a%20b=c+d%zz%4", "a b", `"c d%zz%4"`},
		{form, "", "a", missing},
		{form, "A=b", "a", missing},
		{"", "a=b", "a", missing},
		{"text/plain; " + form, "a=b", "a", missing},
		{"application/json", `{"a":"b"}`, "a", missing},
	} {
		if got := show(t, "post_arg_"+c.name, ctx("POST", "/", c.body, "Content-Type", c.kind)); got != c.want {
			t.Errorf("%s %q: %s is %s, want %s", c.kind, c.body, c.name, got, c.want)
		}
	}
}

func TestPostPath(t *testing.T) {
	const json, form = "application/json", "application/x-www-form-urlencoded"
	const doc = `{"model":"m","n":1.50,"t":true,"f":false,"z":null,"o":{"a":{"b":"c"},"":"e"},"list":[{"x":1},{"x":2}],"dup":1,"dup":2,"a.b":1}`
	const multipart = "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n" +
		"Content-Type: text/plain\r\n\r\nline\r\n\r\nmore\r\n--B\r\ncontent-disposition:form-data;name=plain\r\n\r\n\r\n--B\r\nX: y\r\n\r\nz\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nsecond\r\n--B--\r\nepilogue"
	for _, c := range []struct{ kind, body, name, want string }{
		{json, doc, "model", `"m"`},
		{json + "; charset=utf-8", doc, "model", `"m"`},
		{json, doc, "n", `1.5`},
		{json, doc, "t", `true`},
		{json, doc, "f", `false`},
		{json, doc, "z", `null`},
		{json, doc, "none", missing},
		{json, doc, "o.a.b", `"c"`},
		{json, doc, "o..a", `[{"b":"c"}]`},
		{json, doc, "(o)a.b", `"c"`}, // the original splits there, too
		{json, doc, "o.a", `{"b":"c"}`},
		{json, doc, "model.x", missing},
		{json, doc, "list.0", missing},
		{json, doc, "list[0].x", `[1]`},
		{json, doc, "list[*].x", `[1,2]`},
		{json, doc, "list[5]", missing},
		{json, doc, "dup", `2`},
		{json, `[{"a":1}]`, "[0].a", `not a path`},
		{json, `[{"a":1}]`, "a", missing},
		{json, `"a"`, "a", missing},
		{json, `"a"`, "a[*]", missing},
		{json, ``, "a", missing},
		{json, `{"a":1`, "a", missing},
		{form, "model=a%20b&x[0][y]=z&l=1&l=2&flag", "model", `"a b"`},
		{form, "l=1&l=2&flag", "l", `["1","2"]`},
		{form, "l=1&l=2&flag", "l[*]", `["1","2"]`},
		{form, "l=1&l=2&flag", "flag", `true`},
		{"multipart/form-data; boundary=B", multipart, "model", `"m"`},
		{`multipart/form-data; boundary="B"`, multipart, "f", `"line\r\n\r\nmore"`},
		{"multipart/form-data; charset=x; Boundary='B'; y=z", multipart, "plain", `""`},
		{"multipart/form-data; boundary=B", multipart, "none", missing},
		{"multipart/form-data; boundary=B", strings.ReplaceAll(multipart, "\r\n", "\n"), "f", `"line\n\nmore"`},
		{"multipart/form-data; boundary=B", "preamble\r\n" + multipart, "model", `"m"`},
		{"multipart/form-data; boundary=B", "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx--B\r\n--B--", "a", `"x--B"`},
		{"multipart/form-data; boundary=B", "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\ncut", "a", `"cut"`},
		{"multipart/form-data; boundary=B", "--B\r\nContent-Disposition: form-data; name=\"a\"", "a", missing},
		{"multipart/form-data", multipart, "model", missing},
		{"text/plain", doc, "model", missing},
		{"", doc, "model", missing},
	} {
		if c.want == "not a path" {
			if _, err := Variable("post_arg." + c.name); err == nil {
				t.Errorf("%s was accepted", c.name)
			}
			continue
		}
		if got := show(t, "post_arg."+c.name, ctx("POST", "/", c.body, "Content-Type", c.kind)); got != c.want {
			t.Errorf("%s %.60q: %s is %s, want %s", c.kind, c.body, c.name, got, c.want)
		}
	}
}

func TestBodyLimits(t *testing.T) {
	c := ctx("POST", "/", `{"a":"b"}`, "Content-Type", "application/json")
	c.Limits.PostArgs = 8
	if got := show(t, "post_arg.a", c); got != missing {
		t.Errorf("a body above the limit: %s", got)
	}
	c = ctx("POST", "/", `{"query":"{a}"}`, "Content-Type", "application/json")
	c.Limits = plugin.Limits{PostArgs: 100, GraphQL: 14}
	if got := show(t, "graphql_name", c); got != missing {
		t.Errorf("a GraphQL body above the limit: %s", got)
	}
	c = ctx("POST", "/", "["+strings.Repeat("1,", maxValues+1)+"1]", "Content-Type", "application/json")
	if got := show(t, "post_arg.x[*]", c); got != missing {
		t.Errorf("too many values: %.20s", got)
	}
	c.Buffer = nil
	c.Reset()
	if got := show(t, "post_arg.x[*]", c); got != missing {
		t.Errorf("no body: %.20s", got)
	}
}

func TestGraphQL(t *testing.T) {
	const absent = missing + "|" + missing + "|" + missing
	const json = "application/json"
	for _, c := range []struct{ method, target, kind, body, want string }{
		{"POST", "/", "", "query repo {\n owner {\n name\n }\n}", `"query"|"repo"|["owner"]`},
		{"POST", "/", "", "{ a: owner(x: [1, -2.5e3, $v, {k: \"}\\\"\"}], y: ENUM) @skip(if: true) { name } repo }", `"query"|""|["owner","repo"]`},
		{"POST", "/", "", "mutation repo($ep: Episode!, $review: [ReviewInput!]! = [{a: null}]) @d { createReview(episode: $ep) { stars } }", `"mutation"|"repo"|["createReview"]`},
		{"POST", "/", "", "subscription { s }", `"subscription"|""|["s"]`},
		{"POST", "/", "", "query a { x } query b { y }", `"query"|"a"|["x"]`},
		{"POST", "/", "", "query a { x } }", absent},
		{"POST", "/", "", "fragment f on T { x ...g } query a { y }", missing + `|"f"|["x","g"]`},
		{"POST", "/", "", "# {\n,, query a { ...f @x ... on T { z } ... { q } y # }\n}", `"query"|"a"|["f","y"]`},
		{"POST", "/", "", "\ufeffquery { a(s: \"\"\"block \" \\\"\"\" } \"\"\") }", `"query"|""|["a"]`},
		{"POST", "/", "", "{}", `"query"|""|[]`},
		{"POST", "/", "", "AA", absent},
		{"POST", "/", "", "", absent},
		{"POST", "/", "", "query", absent},
		{"POST", "/", "", "query { a", absent},
		{"POST", "/", "", "query { a(b) }", absent},
		{"POST", "/", "", "query { a(b: \"x) }", absent},
		{"POST", "/", "", "query { a(b: \"\"\"x) }", absent},
		{"POST", "/", "", "query { a(b: \"x\n\") }", absent},
		{"POST", "/", "", "query { a(b: 1x) }", absent},
		{"POST", "/", "", "query () { a }", absent},
		{"POST", "/", "", "query ($a: T) { a %", absent},
		{"POST", "/", "", "fragment on T", absent},
		{"POST", "/", "", strings.Repeat("{a", 150) + strings.Repeat("}", 150), `"query"|""|["a"]`},
		{"POST", "/", "", strings.Repeat("{a", 250) + strings.Repeat("}", 250), absent},
		{"POST", "/", "", "{a(x:" + strings.Repeat("[", 1<<20-100), absent},
		{"POST", "/", json, `{"query":"query{owner{name}}"}`, `"query"|""|["owner"]`},
		{"POST", "/", json, `{"query":1}`, absent},
		{"POST", "/", json, `{}`, absent},
		{"POST", "/", json, `[]`, absent},
		{"POST", "/", json, `{`, absent},
		{"POST", "/", json + "; charset=utf-8", `{"query":"{a}"}`, absent},
		{"GET", "/?query=query{owner{name}}", "", "", `"query"|""|["owner"]`},
		{"GET", "/?query=query%7Bowner%7Bname%7D%7D&query={x}", "", "", `"query"|""|["owner"]`},
		{"GET", "/?query", "", "", absent},
		{"GET", "/", "", "{a}", absent},
		{"PUT", "/?query={a}", "", "{a}", absent},
	} {
		x := ctx(c.method, c.target, c.body)
		if c.kind != "" {
			x.Request.Header.Add("Content-Type", c.kind)
		}
		got := ""
		for i, name := range []string{"graphql_operation", "graphql_name", "graphql_root_fields"} {
			if i > 0 {
				got += "|"
			}
			v := vars[name].typed(x, nil)
			if v.kind == text {
				got += strconv.Quote(v.text)
			} else if b, ok := v.append(nil); ok {
				got += string(b)
			} else {
				got += missing
			}
		}
		if got != c.want {
			t.Errorf("%s %s %.60q: %s, want %s", c.method, c.target, c.body, got, c.want)
		}
	}
}

func TestJSONPathSteps(t *testing.T) {
	const doc = `{"store":{"book":[
		{"category":"reference","author":"Rees","title":"Sayings","price":8.95},
		{"category":"fiction","author":"Waugh","title":"Sword","price":12.99,"ok":true},
		{"category":"fiction","author":"Melville","title":"Moby","isbn":"0-553","price":8.99},
		{"category":"fiction","author":"Tolkien","title":"Lord","isbn":"0-395","price":22.99,"length":3}],
		"bicycle":{"color":"red","price":19.95}},"a":{"a":{"a":1}},"it's":1,"say \"x\"":2}`
	root, err := document.Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"store.book[*].author":                               `["Rees","Waugh","Melville","Tolkien"]`,
		".author":                                            `["Rees","Waugh","Melville","Tolkien"]`,
		"store..price":                                       `[8.95,12.99,8.99,22.99,19.95]`,
		"store.*":                                            `2 values`,
		"store.book[2].title":                                `["Moby"]`,
		"store.book.2.title":                                 `["Moby"]`,
		".book[0,1].title":                                   `["Sayings","Sword"]`,
		".book[0, 1 ].title":                                 `["Sayings","Sword"]`,
		".book[:2].title":                                    `["Sayings","Sword"]`,
		".book[1:].title":                                    `["Sword","Moby","Lord"]`,
		".book[-1:].title":                                   `["Lord"]`,
		".book[0:-1:2].title":                                `["Sayings","Moby"]`,
		".book[0:9:99999999999].title":                       `["Sayings"]`,
		".book[3:0:-1].title":                                `[]`,
		".book[-1].title":                                    `[]`,
		".book[9]":                                           `[]`,
		"store['bicycle'].color":                             `["red"]`,
		`store["bicycle"]['color','price']`:                  `["red",19.95]`,
		`store["none"].color`:                                `[]`,
		`.["it's"]`:                                          `[1]`,
		`.['it\'s']`:                                         `[1]`,
		`.["say \"x\""]`:                                     `[2]`,
		".book[?(@.isbn)].title":                             `["Moby","Lord"]`,
		".book[?(@.price<10)].title":                         `["Sayings","Moby"]`,
		".book[?(@.price >= 12.99)].title":                   `["Sword","Lord"]`,
		".book[?(@.price*2 > 40)].title":                     `["Lord"]`,
		".book[?(@.price - 1 < 7.96)].title":                 `["Sayings"]`,
		".book[?(@.price % 2 + 0 < 1)].title":                `["Sayings","Sword","Moby","Lord"]`,
		".book[?(@.price / 2 <= 4.475)].title":               `["Sayings"]`,
		".book[?(@.category == 'reference')].title":          `["Sayings"]`,
		".book[?(@.category = \"reference\")].title":         `["Sayings"]`,
		".book[?(@.category != 'fiction')].title":            `["Sayings"]`,
		".book[?(@['category'] <> 'fiction')].title":         `["Sayings"]`,
		".book[?(@.isbn && @.price > 10)].title":             `["Lord"]`,
		".book[?(@.isbn and @.price > 10 or @.ok)].title":    `["Sword","Lord"]`,
		".book[?((@.price > 20) || (@.price < 8.96))].title": `["Sayings","Lord"]`,
		".book[?(@.ok == true)].title":                       `["Sword"]`,
		".book[?(@.ok == TRUE)].title":                       `["Sword"]`,
		".book[?(@.author > 'S')].title":                     `["Sword","Lord"]`,
		".book[?(@.author > 5)].title":                       `["Sayings","Sword","Moby","Lord"]`, // compared as texts
		".book[?(@.price > 'x')].title":                      `[]`,
		".book[?(@.price == '8.95')].title":                  `["Sayings"]`,
		".book[?(@.none == 1)].title":                        `[]`,
		".book[?(@.none != 1)].title":                        `[]`,
		".book[?(@.length > 5)].title":                       `["Lord"]`, // of members
		".book[?(0x10 == 16)].title":                         `["Sayings","Sword","Moby","Lord"]`,
		".book[?(false)].title":                              `[]`,
		".book[(@.length-1)].title":                          `["Lord"]`,
		"store[?(@.color)].price":                            `[19.95]`,
		".a":                                                 `3 values`,
		".a.a":                                               `2 values`,
		"a..a":                                               `2 values`,
		".*":                                                 `34 values`,
		"store . book":                                       missing,
		"":                                                   missing,
		"[0]":                                                missing,
		"a[":                                                 missing,
		"a[.b":                                               missing,
		"a[]":                                                missing,
		"a[0":                                                missing,
		"a['b]":                                              missing,
		"a[1,]":                                              missing,
		"a[1:2:0]":                                           missing,
		"a[1:2:]":                                            missing,
		"a[?(@.b ==)]":                                       missing,
		"a[?(@)]":                                            missing,
		"a[?(@.)]":                                           missing,
		"a[?(x)]":                                            missing,
		"a[?(@.b]":                                           missing,
		"a[" + strings.Repeat("?(", 3) + "]":                 missing,
		"a[?(" + strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200) + ")]": missing,
		"a-b":   missing,
		"a...b": missing,
		"a.*b":  missing,
	} {
		jp, err := compileJSONPath(path)
		if err != nil {
			if want != missing || !strings.HasPrefix(err.Error(), "invalid expression \"$."+path+`" near "`) {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		found := jp.find(root)
		got := (&document.Value{Kind: document.Array, Items: found}).String()
		if strings.HasSuffix(want, " values") {
			got = strconv.Itoa(len(found)) + " values"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// A search that never ends is ended.
func TestJSONPathBounds(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 400) + strings.Repeat(`]}`, 400)
	root, err := document.Parse([]byte(deep))
	if err != nil {
		t.Fatal(err)
	}
	jp, err := compileJSONPath("." + strings.Repeat("*..", 6) + "*")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(jp.find(root)); n > maxResults {
		t.Errorf("%d results", n)
	}
}

func FuzzJSONPath(f *testing.F) {
	for _, s := range []string{"a.b", ".a[*]", "a[?(@.b>1 && @['c']=='x')]", "a[(@.length-1)]", "a[1:2:3,'x',4]", "a[-1:]"} {
		f.Add(s, `{"a":[{"b":2,"c":"x"},[1,2,3]]}`)
	}
	f.Fuzz(func(t *testing.T, path, doc string) {
		jp, err := compileJSONPath(path)
		root, parseErr := document.Parse([]byte(doc))
		if err != nil || parseErr != nil {
			return
		}
		for _, v := range jp.find(root) {
			if v == nil {
				t.Fatalf("%q found nothing as a value in %s", path, doc)
			}
		}
	})
}

func FuzzBody(f *testing.F) {
	f.Add("query a($b: [C!]! = {d: 1}) { e(f: \"g\") @h { ...i } }", "multipart/form-data; boundary=B")
	f.Add("--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--B--", "multipart/form-data; boundary=B")
	f.Add("a=b&c&a=%41", "application/x-www-form-urlencoded")
	f.Fuzz(func(t *testing.T, text, kind string) {
		c := ctx("POST", "/", text, "Content-Type", kind)
		for _, name := range []string{"post_arg.a", "post_arg.a[*]", "post_arg_a", "graphql_name", "graphql_root_fields"} {
			v, err := Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			first, ok := v.Value(c)
			if second, again := v.Value(c); first != second || ok != again {
				t.Errorf("%s: %q, then %q", name, first, second)
			}
		}
	})
}
