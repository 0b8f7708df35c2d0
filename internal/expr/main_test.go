package expr

import (
	"testing"

	"weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
