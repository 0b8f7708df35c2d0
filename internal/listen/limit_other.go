//go:build !linux

package listen

func maxDescriptors() int { return 0 }
