package events

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// What the message of a condition is made of that speaks of several objects: parts
// of the form "object: text" or "object: reason: text", the latter where the reason
// is another one than the condition's. The writer sees to it that no part holds one
// of these; see [Inline].
const (
	// Between separates the parts.
	Between = "; "
	// Besides begins the parts that have nothing to do with the condition's reason,
	// such as objects that are merely on their way.
	Besides = ". Besides: "
	// CannotWatch begins the message of a Watching condition; its parts have kinds
	// instead of objects.
	CannotWatch = "Cannot watch "
)

var inline = strings.NewReplacer(Between, ", ", Besides, ", besides: ")

// Inline makes text a part of a message, or of a part.
func Inline(text string) string { return inline.Replace(text) }

// omission stands for the objects that are not named.
var omission = regexp.MustCompile(`^and \d+ more$`)

// More stands for n objects that are not named.
func More(n int) string { return fmt.Sprintf("and %d more", n) }

// part is what the message of a condition says of one object.
type part struct {
	// reason is a problem, or the condition's reason.
	reason string
	// object is its kind, namespace and name; something else, or empty, where the
	// part is about no object.
	object string
	text   string
}

// partsOf takes the message of a condition apart, but for what it says besides and
// for how many objects it does not name.
func partsOf(message, reason string) []part {
	message, _, _ = strings.Cut(message, Besides)
	var parts []part
	for text := range strings.SplitSeq(message, Between) {
		if text == "" || omission.MatchString(text) {
			continue
		}
		p := part{reason: reason, text: text}
		if object, rest, found := strings.Cut(text, ": "); found {
			p.object, p.text = object, rest
			if other, rest, found := strings.Cut(rest, ": "); found && IsProblem(other) {
				p.reason, p.text = other, rest
			}
		}
		parts = append(parts, p)
	}
	return parts
}

// String is the part without its reason.
func (p part) String() string {
	if p.object == "" {
		return p.text
	}
	return p.object + ": " + p.text
}

// head is the part without what it says after the first word or words, such as a
// status or a reason.
func (p part) head() string {
	head, _, _ := strings.Cut(p.String(), ": ")
	if p.object != "" {
		word, _, _ := strings.Cut(p.text, ": ")
		head += ": " + word
	}
	return head
}

// action is what has failed.
func (p part) action() string {
	switch action := problems[p.reason]; {
	case action != "":
		return action
	case p.reason == ReasonDriftDetected:
		return ActionDetect
	}
	return ActionApply
}

// same reports whether two parts say the same, as far as neither is cut. A reason that
// is not known is any.
func (p part) same(other part) bool {
	if p.object != other.object || p.reason != other.reason && p.reason != "" && other.reason != "" {
		return false
	}
	return p.text == other.text || cutFrom(p.text, other.text) || cutFrom(other.text, p.text)
}

// cutFrom reports whether display.Truncate may have made short of long.
func cutFrom(short, long string) bool {
	begin, cut := strings.CutSuffix(short, display.Ellipsis)
	return cut && strings.HasPrefix(long, begin)
}

// without are the parts that are not among others.
func without(parts, others []part) []part {
	var left []part
	for _, p := range parts {
		known := false
		for _, other := range others {
			known = known || p.same(other)
		}
		if !known {
			left = append(left, p)
		}
	}
	return left
}

// grouped are the parts that have the same by, in the order of the first ones.
func grouped(parts []part, by func(part) string) [][]part {
	var groups [][]part
	at := map[string]int{}
	for _, p := range parts {
		i, known := at[by(p)]
		if !known {
			i = len(groups)
			at[by(p)], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}
