package migrate

import (
	"strings"

	"github.com/vidra-operator/vidra/pkg/insight/render"
)

// Text returns the VidraResource of a plan as YAML, and the findings and steps as comments, so that the whole is a manifest.
func (p *Plan) Text() (string, error) {
	var b strings.Builder
	comment := func(format string, args ...any) {
		b.WriteString("# " + strings.Join(strings.Fields(render.Sprintf(format, args...)), " ") + "\n")
	}
	comment("%s to VidraResource %s", p.From, p.Name)
	for _, f := range p.Findings {
		comment("%s", f)
	}
	for i, step := range p.Steps {
		state := "to do"
		if step.Done {
			state = "done"
		}
		comment("step %d (%s): %s", i+1, state, step.Text)
	}
	if p.VidraResource == nil {
		return b.String(), nil
	}
	document, err := render.Document(render.YAML, p.VidraResource.Object)
	b.WriteString(document)
	return b.String(), err
}
