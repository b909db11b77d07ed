// Package hlocheck holds tests of the text that package stablehlo writes against a real compiler.
//
// It is the one place that imports both stablehlo and pjrt. The tests run where
// TGX_XLA_CPU_PLUGIN names a CPU plugin; elsewhere they are skipped.
package hlocheck
