package render

import (
	"time"

	"github.com/vidra-operator/vidra/pkg/insight"
)

// Style is how answers are written. The zero value writes text without colours, as seen in the year 1.
type Style struct {
	// Colour adds ANSI codes.
	Colour bool
	// Wide writes all that an answer has, instead of the first of long lists.
	Wide bool
	// Now is the present time, for ages.
	Now time.Time
	// Program is the name of the program in commands that the text proposes. Defaults to insight.DefaultProgram.
	Program insight.Program
}

func (s Style) table() *textTable { return &textTable{colour: s.Colour} }
