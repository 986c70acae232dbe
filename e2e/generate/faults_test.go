package generate

import (
	"testing"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// TestSeededFaultsFit requires that each seeded fault of e2e/search changes the present source. Its own test builds and searches it.
func TestSeededFaultsFit(t *testing.T) {
	for name, f := range suite.SeededFaults(t) {
		t.Run(name, func(t *testing.T) { f.Sources(t) })
	}
}
