package schema

import (
	"regexp"
	"time"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// patternTime bounds one match of a pattern that needs backtracking.
const patternTime = 100 * time.Millisecond

// compileRegexp gives pattern its meaning in PCRE: by Go's linear engine where
// that knows the syntax, by a backtracking one otherwise.
func compileRegexp(pattern string) (jsonschema.Regexp, error) {
	if re, err := regexp.Compile(pattern); err == nil {
		return re, nil
	}
	re, err := regexp2.Compile(pattern, regexp2.None)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = patternTime
	return backtracking{re}, nil
}

type backtracking struct{ *regexp2.Regexp }

// MatchString reports a match; one that takes too long is none.
func (b backtracking) MatchString(s string) bool {
	ok, err := b.Regexp.MatchString(s)
	return ok && err == nil
}
