package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	// named is a test that docs/field-cases.md names: `package.TestName`.
	named = regexp.MustCompile("`([a-z0-9]+)\\.((?:Test|Benchmark|Fuzz)\\w*)`")
	// measured is a command there: `make target` or `weir bench name`.
	measured = regexp.MustCompile("`(make|weir bench) ([a-z0-9-]+)[^`]*`")
	// tested is a test function.
	tested = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w*)\(`)
)

// TestFieldCases holds docs/field-cases.md to what there is: every row has a test, or
// says what it waits for, and each test and command that is named exists.
func TestFieldCases(t *testing.T) {
	root := filepath.Join("..", "..")
	exists := everyTest(t, root)
	for _, makefile := range []string{"Makefile", "bench.mk"} {
		for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(text(t, root, makefile), -1) {
			exists["make "+m[1]] = true
		}
	}
	commands, err := filepath.Glob(filepath.Join(root, "internal", "bench", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		for _, m := range regexp.MustCompile(`(?:Use: +|figureCommand\()"([a-z0-9-]+)`).FindAllStringSubmatch(text(t, path), -1) {
			exists["weir bench "+m[1]] = true
		}
	}
	for _, problem := range caseProblems(text(t, root, "docs", "field-cases.md"), exists) {
		t.Error(problem)
	}
}

func TestFieldCasesRefuse(t *testing.T) {
	exists := map[string]bool{"app.TestA": true, "make soak": true}
	got := caseProblems("| row | what | test |\n|---|---|---|\n| 1 | a | `app.TestA`, `make soak` |\n| 2 | b | `app.TestB` |\n"+
		"| 2 | c | waits for d |\n| 5 | e | `make soak` |\n| 6 | f | |\n| 7 | g | `app.TestA`, `weir bench none --x` |\n", exists)
	want := []string{
		"row 2: there is no app.TestB", "row 2 after row 2", "row 5: neither a test nor what it waits for",
		"row 6: neither a test nor what it waits for", "row 7: there is no weir bench none",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// caseProblems is what is wrong with the table, given the tests and commands there are.
func caseProblems(table string, exists map[string]bool) (problems []string) {
	last := 0
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		row, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		if err != nil {
			continue
		}
		if row <= last {
			problems = append(problems, fmt.Sprintf("row %d after row %d", row, last))
		}
		last = row
		tests := named.FindAllStringSubmatch(cells[3], -1)
		if len(tests) == 0 && !strings.Contains(cells[3], "waits for ") {
			problems = append(problems, fmt.Sprintf("row %d: neither a test nor what it waits for", row))
		}
		for _, m := range tests {
			if !exists[m[1]+"."+m[2]] {
				problems = append(problems, fmt.Sprintf("row %d: there is no %s.%s", row, m[1], m[2]))
			}
		}
		for _, m := range measured.FindAllStringSubmatch(cells[3], -1) {
			if !exists[m[1]+" "+m[2]] {
				problems = append(problems, fmt.Sprintf("row %d: there is no %s %s", row, m[1], m[2]))
			}
		}
	}
	if last == 0 {
		problems = append(problems, "no rows")
	}
	return problems
}

// everyTest returns the tests there are, as package.TestName.
func everyTest(t *testing.T, root string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range tested.FindAllStringSubmatch(text(t, path), -1) {
			all[filepath.Base(filepath.Dir(path))+"."+m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func text(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
