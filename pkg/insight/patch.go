package insight

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// patchOf returns a unified diff of the text of a manifest of vr. It leaves out the lines around the change that have values which are never
// shown, and masks those that it cannot leave out. whole reports that no line is masked.
func patchOf(vr *v1alpha1.VidraResource, name, before, after string) (patch string, whole bool) {
	edits := udiff.Strings(before, after)
	left, right := hiddenLines(vr, before), hiddenLines(vr, after)
	for context := udiff.DefaultContextLines; context > 0; context-- {
		text, err := udiff.ToUnified("a/"+name, "b/"+name, before, edits, context)
		if err != nil {
			return err.Error(), false
		}
		shown, is := maskPatch(text, left, right)
		if is || context == udiff.DefaultContextLines {
			patch, whole = shown, is
		}
		if whole {
			break
		}
	}
	return patch, whole
}

// hunk matches the begin of a hunk, with the first lines of the text before and after.
var hunk = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+(\d+)`)

// maskPatch masks the hidden lines of the text before and after in a unified diff. whole reports that the diff has none.
func maskPatch(patch string, before, after map[int]bool) (masked string, whole bool) {
	var b strings.Builder
	left, right, begun := 0, 0, false
	whole = true
	for line := range strings.Lines(patch) {
		hidden := false
		switch found := hunk.FindStringSubmatch(line); {
		case found != nil:
			left, _ = strconv.Atoi(found[1])
			right, _ = strconv.Atoi(found[2])
			begun = true
		case !begun:
		case line[0] == ' ':
			hidden = before[left] || after[right]
			left, right = left+1, right+1
		case line[0] == '-':
			hidden = before[left]
			left++
		case line[0] == '+':
			hidden = after[right]
			right++
		}
		if hidden {
			line, whole = line[:1]+mask+"\n", false
		}
		b.WriteString(line)
	}
	return b.String(), whole
}

// hiddenLines are the numbers of the lines of a manifest of vr that have a value which is never shown, or which may have one.
func hiddenLines(vr *v1alpha1.VidraResource, text string) map[int]bool {
	h := &hiding{vr: vr, lines: strings.Split(text, "\n"), hidden: map[int]bool{}}
	var documents []*yaml.Node
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		document := &yaml.Node{}
		err := decoder.Decode(document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			h.hide(1, len(h.lines))
			return h.hidden
		}
		documents = append(documents, document)
		h.addStarts(document)
	}
	slices.Sort(h.starts)
	for _, document := range documents {
		for _, root := range document.Content {
			h.hideIn(root)
		}
	}
	return h.hidden
}

// hiding collects the hidden lines of a text.
type hiding struct {
	vr    *v1alpha1.VidraResource
	lines []string
	// starts are the lines on which a node begins, in their order.
	starts []int
	hidden map[int]bool
}

func (h *hiding) hide(from, to int) {
	for line := from; line <= to; line++ {
		h.hidden[line] = true
	}
}

func (h *hiding) addStarts(n *yaml.Node) {
	h.starts = append(h.starts, n.Line)
	for _, child := range n.Content {
		h.addStarts(child)
	}
}

// end returns the last line of a node: the one before the next node begins, or before the next document.
func (h *hiding) end(n *yaml.Node) int {
	last := n.Line
	for _, child := range n.Content {
		last = max(last, h.end(child))
	}
	if len(n.Content) > 0 {
		return last
	}
	next, _ := slices.BinarySearch(h.starts, last+1)
	for ; last < len(h.lines) && !strings.HasPrefix(h.lines[last], "---"); last++ {
		if next < len(h.starts) && last+1 >= h.starts[next] {
			break
		}
	}
	return last
}

// hideIn hides the values of an object that are never shown, or of the items of a list of objects.
func (h *hiding) hideIn(n *yaml.Node) {
	obj, err := objectIn(n)
	if err != nil {
		h.hide(n.Line, h.end(n))
		return
	}
	if items, found := child(n, "items"); found && strings.HasSuffix(obj.GetKind(), "List") {
		for _, item := range items.Content {
			h.hideIn(item)
		}
		return
	}
	if text, inner := child(n, "spec", "manifest"); inner && isVidraResource(manifest.Object{Unstructured: obj}) {
		unstructured.RemoveNestedField(obj.Object, "spec", "manifest")
		if text.Style&yaml.LiteralStyle == 0 {
			h.hide(text.Line, h.end(text))
		} else {
			for line := range hiddenLines(h.vr, text.Value) {
				h.hidden[text.Line+line] = true
			}
		}
	}
	was := slices.ContainsFunc(h.vr.Status.ManagedResources, func(e v1alpha1.ManagedResourceStatus) bool {
		return e.Sensitive && e.Kind == obj.GetKind() && e.Name == obj.GetName()
	})
	ownership.Mask(obj, ownership.Disclose(ownership.Sensitivity(was), false, false), func(path []string, _ any) any {
		value, found := child(n, path...)
		h.hide(value.Line, h.end(value))
		if value.Kind == yaml.AliasNode || !found {
			h.hide(n.Line, h.end(n)) // the value is elsewhere in the object or in a merged one
		}
		return nil
	})
}

// objectIn returns the object of a node.
func objectIn(n *yaml.Node) (*unstructured.Unstructured, error) {
	var content map[string]any
	if err := n.Decode(&content); err != nil {
		return nil, err
	}
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{}
	return obj, utiljson.Unmarshal(body, &obj.Object)
}

// child returns the node at names of fields and indexes of lists; found is false for the last node on the way.
func child(n *yaml.Node, path ...string) (at *yaml.Node, found bool) {
	for _, token := range path {
		var next *yaml.Node
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == token {
					next = n.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(token); err == nil && i < len(n.Content) {
				next = n.Content[i]
			}
		}
		if next == nil {
			return n, false
		}
		n = next
	}
	return n, true
}
