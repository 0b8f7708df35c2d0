package bench

import "testing"

// A port that the system may give to anybody can be taken before it is used.
func TestFreePortsAreNotGivenOut(t *testing.T) {
	all, err := freePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range all {
		if port <= 1024 || port >= 32768 || seen[port] {
			t.Errorf("port %d of %v", port, all)
		}
		seen[port] = true
	}
}
