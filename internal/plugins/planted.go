//go:build planted

package plugins

import (
	"weir/internal/plugin"
	slow "weir/internal/weirtest/planted"
	"weir/internal/weirtest/planted/clock"
)

// planted are plugins that only a build for an experiment has: see bench/planted.sh.
func planted() []plugin.Spec { return []plugin.Spec{clock.Before, slow.Plugin, clock.After} }
