//go:build !invariants

package pjrt

const invariantsOn = false
