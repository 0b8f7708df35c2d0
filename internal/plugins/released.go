//go:build !planted

package plugins

import "weir/internal/plugin"

// planted are plugins that only a build for an experiment has: none.
func planted() []plugin.Spec { return nil }
