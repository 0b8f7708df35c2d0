package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// corpus is testdata/raw-bytes.json: raw requests and upstream answers with
// the strict result for each.
type corpus struct {
	Responses map[string]string
	Cases     []struct {
		Name, Raw, Upstream string
		Status              []int
	}
}

func loadCorpus(tb testing.TB) corpus {
	tb.Helper()
	b, err := os.ReadFile("testdata/raw-bytes.json")
	if err != nil {
		tb.Fatal(err)
	}
	var c corpus
	if err := json.Unmarshal(b, &c); err != nil {
		tb.Fatal(err)
	}
	if len(c.Cases) != 122 {
		tb.Fatalf("%d cases", len(c.Cases))
	}
	return c
}

var (
	repeated = regexp.MustCompile(`\{a\*(\d+)\}`)
	numbered = regexp.MustCompile(`\{X-Hn: v CRLF, n=0\.\.(\d+)\}`)
)

// expand turns the notation of the corpus into bytes.
func expand(raw string) string {
	raw = strings.ReplaceAll(raw, "{KEY}", "0123456789abcdef")
	raw = repeated.ReplaceAllStringFunc(raw, func(s string) string {
		n, _ := strconv.Atoi(repeated.FindStringSubmatch(s)[1])
		return strings.Repeat("a", n)
	})
	raw = numbered.ReplaceAllStringFunc(raw, func(s string) string {
		last, _ := strconv.Atoi(numbered.FindStringSubmatch(s)[1])
		var b strings.Builder
		for n := range last + 1 {
			fmt.Fprintf(&b, "X-H%d: v\r\n", n)
		}
		return b.String()
	})
	latin1 := make([]byte, 0, len(raw))
	for _, c := range raw {
		latin1 = append(latin1, byte(c))
	}
	return string(latin1)
}

// outcome puts what the parser did into the corpus's terms.
func outcome(all []message) string {
	last := all[len(all)-1]
	switch {
	case errors.Is(last.Head, ErrHeadTooLarge):
		return "431"
	case errors.Is(last.Head, ErrExpectation):
		return "417"
	case errors.Is(last.Head, ErrMalformed), errors.Is(last.Head, ErrVersion):
		return "head"
	case errors.Is(last.Err, ErrMalformed):
		return "body"
	case last.Head == nil && last.Err == nil:
		return "ok"
	}
	return last.String()
}

// wanted derives the parser's outcome from what a client should see; where the
// corpus leaves a choice, the message is accepted.
func wanted(status []int) string {
	switch {
	case slices.Contains(status, 200), slices.Contains(status, 204):
		return "ok"
	case slices.Equal(status, []int{400}):
		return "head"
	case slices.Equal(status, []int{400, 502}):
		return "body"
	case status[0] == 417 || status[0] == 431:
		return strconv.Itoa(status[0])
	}
	return "ok" // 401, 404 and answers to a broken upstream: not the parser's
}

func TestCorpusRequests(t *testing.T) {
	for _, c := range loadCorpus(t).Cases {
		raw := expand(c.Raw)
		got := requests(strings.NewReader(raw), Limits{}, 4096)
		if o, want := outcome(got), wanted(c.Status); o != want {
			t.Errorf("%s: %s, want %s: %v", c.Name, o, want, got)
		}
		if want := map[bool]int{true: 2, false: 1}[c.Upstream == "twice"]; len(got) != want {
			t.Errorf("%s: %d messages: %v", c.Name, len(got), got)
		}
		sameInPieces(t, c.Name, raw, got, func(src io.Reader, size int) []message {
			return requests(src, Limits{}, size)
		})
	}
}

// sameInPieces checks that the way a stream arrives makes no difference.
func sameInPieces(t *testing.T, name, raw string, want []message, read func(io.Reader, int) []message) {
	t.Helper()
	check := func(how string, got []message) {
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s, %s:\n got %v\nwant %v", name, how, got, want)
		}
	}
	sizes, step := []int{1, 7, minDirect, 64 << 10}, 1
	if len(raw) > 4096 {
		sizes, step = []int{minDirect}, len(raw)/50 // what is long is mostly filler
	}
	for _, size := range sizes {
		check(fmt.Sprintf("in pieces of %d", size), read(strings.NewReader(raw), size))
		check("byte by byte", read(iotest.OneByteReader(strings.NewReader(raw)), size))
		check("with data and error", read(iotest.DataErrReader(strings.NewReader(raw)), size))
	}
	for i := 0; i < len(raw); i += step {
		for _, size := range []int{3, minDirect} {
			check(fmt.Sprintf("split at %d", i), read(&pieces{raw[:i], raw[i:]}, size))
		}
	}
}

func TestCorpusResponses(t *testing.T) {
	pause := regexp.MustCompile(`<(\d+ms|close)>`)
	want := map[string][]string{
		"r103":    {"103 Early Hints", "200 OK ok"},
		"r100":    {"100 Continue", "200 OK ok"},
		"dupcl":   {"head: malformed message"},
		"clte":    {"head: malformed message"},
		"trailer": {"200 OK ok X-Sum: abc"},
		"eof":     {"200 OK ok-until-close"},
		"http10":  {"200 OK ok-until-close"},
		"barelf":  {"head: malformed message"},
		"fold":    {"head: malformed message"},
		"dup":     {"200 OK ok"},
		"extra":   {"200 OK ok", "200 OK poison"},
		"late":    {"200 OK ok", "200 OK poison"},
		"r204":    {"204 No Content"},
		"xte":     {"head: malformed message"},
		"trunc":   {"200 OK only-this body: unexpected EOF"},
	}
	for mode, raw := range loadCorpus(t).Responses {
		if mode == "idX" { // described in words
			continue
		}
		raw = pause.ReplaceAllString(expand(raw), "")
		got := responses(strings.NewReader(raw), "GET", Limits{}, 4096)
		var lines []string
		for _, m := range got {
			line := strings.TrimSpace(m.Start + " " + m.Body + " " + strings.TrimSpace(m.Trailer))
			if m.Head != nil {
				line = "head: " + m.Head.Error()
			}
			if m.Err != nil {
				line += " body: " + m.Err.Error()
			}
			lines = append(lines, line)
		}
		if !slices.Equal(lines, want[mode]) {
			t.Errorf("%s: %q, want %q", mode, lines, want[mode])
		}
		sameInPieces(t, mode, raw, got, func(src io.Reader, size int) []message {
			return responses(src, "GET", Limits{}, size)
		})
	}
}
