package liquid

import (
	"strings"
	"testing"
)

func scope(name string) any {
	return map[string]any{
		"uri":  "/a/b",
		"n":    5.0,
		"big":  1e20,
		"half": 2.5,
		"yes":  true,
		"list": []any{"b", "a", "b"},
		"none": []any{},
		"user": map[string]any{"name": "ann", "roles": []any{"r1", "r2"}, "x-y": map[string]any{"z": 1.0}},
	}[name]
}

func TestRender(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"plain", "plain"},
		{"{{uri}}", "/a/b"},
		{"<{{ uri }}> {{n}} {{half}} {{big}} {{yes}} {{missing}}", "</a/b> 5 2.5 1e+20 true "},
		{"{{ user.name }}{{user['name']}}{{ user.x-y.z }}", "annann1"},
		{`{{ user["roles"] | join: "," }}`, "r1,r2"},
		{"{{ user.roles[1] }}", "r2"},
		{"{% if uri == '/a/b' %}yes{% else %}no{% endif %}", "yes"},
		{"{% if missing %}yes{% elsif n > 3 %}more{% endif %}", "more"},
		{"{% unless yes %}a{% else %}b{% endunless %}", "b"},
		{"{% case n %}{% when 5 %}five{% else %}other{% endcase %}", "five"},
		{"{% assign x = uri | upcase %}{{ x }}", "/A/B"},
		{"{% capture x %}<{{ n }}>{% endcapture %}{{ x }}{{ x }}", "<5><5>"},
		{"{% raw %}{{ for }}{% endraw %}", "{{ for }}"},
		{"a{% comment %}b{% endcomment %}c", "ac"},
		{"{% for x in none %}x{% else %}empty{% endfor %}", "empty"},
		{"{% for x in missing %}x{% endfor %}.", "."},
		{"a {{- uri -}} b", "a/a/bb"},
		// the filters of APIcast
		{"{{ 'something' | md5 }}", "437b930db84b8079c2dd804a71936b5f"},
		{"{{ 'a b/c' | escape_uri }} {{ 'a+b%2Fc%' | unescape_uri }}", "a%20b%2Fc a b/c%"},
		{"{{ 'user' | encode_base64 }} {{ 'dXNlcg==' | decode_base64 }} {{ '*' | decode_base64 }}", "dXNlcg== user "},
		{"{{ 'hello' | crc32_short }} {{ 'hello' | crc32_long }}", "907060870 907060870"},
		{"{{ 'key' | hmac_sha1: 'text' | encode_base64 }}", "Np4pWetJRQM4shJ0j3fY3tdIR7s="},
		{"{{ 'x' | md5_bin | encode_base64 }} {{ 'x' | sha1_bin | encode_base64 }}", "ndTkYSaMgDT1yFZOFVxnpg== EfatjsUqKYSrqv18O1FlA3hcIHI="},
		{`{{ "it's" | quote_sql_str }}`, `'it\'s'`},
		{"{{ 1547049388 | http_time }} {{ 1547049388 | cookie_time }}", "Wed, 09 Jan 2019 15:56:28 GMT Wed, 09-Jan-19 15:56:28 GMT"},
		{"{{ 'Wed, 09 Jan 2019 15:56:28 GMT' | parse_http_time }}", "1547049388"},
		// those of liquid-lua that differ from Shopify's
		{"{{ 5 | divided_by: 2 }} {{ 7 | modulo: 3 }} {{ 1.25 | round: 1 }} {{ '3' | plus: 1 }}", "2.5 1 1.3 4"},
		{"{{ 'abcdef' | slice: 1, 3 }}", "bcd"},
		{"{{ uri | split: '/' | join: ',' }}", "/,a"},
		{"{{ 'x?check=role' | split: 'check=' | last }}", "role"},
		{"{{ 'abc' | size }} {{ list | size }} {{ list | first }} {{ list | last }} {{ 'abc' | first }}", "1 3 b b abc"},
		{"{{ list | uniq | sort | join }} {{ list | reverse | join: '' }}", "a b bab"},
		{"{{ list | index: 1 }}", "a"},
		{"{{ user | get: 'name' }}", "ann"},
		{"{{ user | json }}", `{"name":"ann","roles":["r1","r2"],"x-y":{"z":1}}`},
		{"{{ uri | json }}", `"\/a\/b"`},
		{"{{ 'a<b>\"&' | escape }} {{ 'abc' | str_reverse }} {{ 'abc' | capitalize }}", "a&lt;b&gt;&quot;&amp; cba Abc"},
		{"{{ 'a-b-c' | replace: '-', '+' }} {{ 'a-b-c' | replace_first: '-', '+' }} {{ 'a-b-c' | remove: '-' }}", "a+b+c a+b-c abc"},
		{"{{ 'a b&c' | url_encode }} {{ 'a%20b' | url_decode }}", "a+b%26c a b"},
		{"{{ 'b' | prepend: 'a' | append: 'c' }}{{ '  x ' | strip }}", "abcx"},
	} {
		template, err := Parse(c.source)
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		got, err := template.Render(scope)
		if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v; want %q", c.source, got, err, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, source := range []string{
		"{{'something' | md5", "{% if x", "a }} b", `{"a":{"b":1}}`, "{{ uri", "{% nothing %}", "{% if uri %}", "{{ | }}", "{{}}",
		"{% include 'file' %}", "{% include '/etc/passwd' %}",
	} {
		if _, err := Parse(source); err == nil {
			t.Errorf("%s: no error", source)
		}
	}
}

func TestFails(t *testing.T) {
	grow := "{% assign a = 'xxxxxxxxxx' %}" + strings.Repeat("{% assign a = a | append: a %}", 60) + "{{ a }}"
	capture := "{% assign a = 'xxxxxxxxxx' %}" + strings.Repeat("{% capture a %}{{ a }}{{ a }}{% endcapture %}", 60) + "{{ a }}"
	for _, source := range []string{
		"{% for x in list %}x{% endfor %}", "{% for x in (1..3) %}x{% endfor %}", "{% tablerow x in list %}x{% endtablerow %}",
		"{{ 1 | divided_by: 0 }}", "{{ uri | nothing_like_this }}", "{{ user | upcase }}", "{{ missing | upcase }}",
		"{{ user }}", "x{{ list }}", grow, capture,
		"{{ 'a' | replace: '', '" + strings.Repeat("y", Limit) + "' }}",
	} {
		template, err := Parse(source)
		if err != nil {
			t.Errorf("%.80s: %v", source, err)
			continue
		}
		if got, err := template.Render(scope); err == nil {
			t.Errorf("%.80s: no error, %.80q", source, got)
		}
	}
}

func TestAsksForNamesOnly(t *testing.T) {
	var asked []string
	template, err := Parse("{% if user.name == 'uri' %}{{ n | plus: 1 }}{% endif %}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := template.Render(func(name string) any {
		asked = append(asked, name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range asked {
		if name == "uri" || name == "name" || name == "list" {
			t.Errorf("asked for %v", asked)
		}
	}
}

func TestClock(t *testing.T) {
	for source, size := range map[string]int{
		"{{ '' | today }}": 10, "{{ '' | localtime }}": 19, "{{ '' | utctime }}": 19, "{{ '' | time }}": 10,
	} {
		template, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := template.Render(scope); err != nil || len(got) != size {
			t.Errorf("%s: %q, %v", source, got, err)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{{ uri | split: '/' | index: 1 }}", "{% if a contains 'b' %}x{% endif %}", "{% case n %}{% when 1, 2 %}{% endcase %}", "{{ (1..5) }}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		template, err := Parse(source)
		if err != nil {
			return
		}
		if got, err := template.Render(scope); err == nil && len(got) > Limit {
			t.Errorf("%d bytes", len(got))
		}
	})
}
