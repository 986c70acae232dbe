// Package configfile reads the file that the flag --config of the operator names, an
// OperatorConfiguration, and sets flags from it.
//
// It is strict: a field that is unknown, repeated or of another type is an error with the line. A flag of the command line
// takes precedence over its field. The package decides nothing about values: the flags do.
package configfile

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	configv1alpha1 "github.com/vidra-operator/vidra/pkg/api/config/v1alpha1"
)

// Origins has where each flag was set that is not at its default.
type Origins map[string]string

// set sets a flag that has no origin yet: one that is set already keeps its value.
func (o Origins) set(fs *flag.FlagSet, name, value, origin string) error {
	if o[name] != "" {
		return nil
	}
	if err := fs.Set(name, value); err != nil {
		return err
	}
	o[name] = origin
	return nil
}

// Name returns the name of a flag for an error: where it was set.
func (o Origins) Name(flagName string) string {
	if origin := o[flagName]; origin != "" {
		return origin
	}
	return "--" + flagName
}

// CommandLine returns the origins of the flags that the command line sets.
func CommandLine(fs *flag.FlagSet) Origins {
	origins := Origins{}
	fs.Visit(func(f *flag.Flag) { origins[f.Name] = "--" + f.Name })
	return origins
}

// Load reads the file of a path and sets the flags of fs that have no origin yet. Its error
// names every fault of the file.
func Load(path string, fs *flag.FlagSet, origins Origins) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--config: read the configuration: %w: give the path of a file, or mount the ConfigMap that has it", err)
	}
	root, err := parse(content)
	if err != nil {
		return fmt.Errorf("--config: %s: %w", path, err)
	}
	l := loader{path: path, fs: fs, origins: origins, fields: map[string]Field{}}
	for _, field := range Fields() {
		l.fields[field.Name] = field
	}
	l.mapping(root)
	return errors.Join(l.faults...)
}

// parse returns the only document of a file.
func parse(content []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("it is not YAML: %w", err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("it has no fields: begin it with apiVersion: %s and kind: %s", configv1alpha1.APIVersion, configv1alpha1.Kind)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one YAML document: keep one")
	}
	return document.Content[0], nil
}

// loader sets flags from one file and gathers the faults of the file.
type loader struct {
	path    string
	fs      *flag.FlagSet
	origins Origins
	fields  map[string]Field
	faults  []error
}

// fault notes an error in a line of the file.
func (l *loader) fault(at *yaml.Node, format string, args ...any) {
	l.faults = append(l.faults, fmt.Errorf("%s:%d: %w", l.path, at.Line, fmt.Errorf(format, args...)))
}

// mapping sets the flags of all fields.
func (l *loader) mapping(root *yaml.Node) {
	lines := map[string]int{}
	required := map[string]string{"apiVersion": configv1alpha1.APIVersion, "kind": configv1alpha1.Kind}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		name := key.Value
		if line, twice := lines[name]; twice {
			l.fault(key, "%s is set twice, first in line %d: remove one", name, line)
			continue
		}
		lines[name] = key.Line
		field, known := l.fields[name]
		switch want, meta := required[name]; {
		case meta && value.Value != want:
			l.fault(value, "%s is %q: it must be %s", name, value.Value, want)
		case meta:
		case !known:
			l.fault(key, "unknown field %q%s: the fields are in docs/reference.md", name, l.similar(name))
		default:
			l.set(field, key, value)
		}
	}
	for _, name := range []string{"apiVersion", "kind"} {
		if lines[name] == 0 {
			l.fault(root, "%s is missing: add %s: %s", name, name, required[name])
		}
	}
}

// similar suggests the field that differs from a name by its upper case and dashes alone, such as
// the flag of the field.
func (l *loader) similar(name string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	for known := range l.fields {
		if plain(known) == plain(name) {
			return ": write " + known
		}
	}
	return ""
}

// set sets the flag of one field.
func (l *loader) set(field Field, key, value *yaml.Node) {
	text, err := scalar(field, value)
	if err != nil {
		l.fault(value, "%s: %w", field.Name, err)
		return
	}
	origin := fmt.Sprintf("%s (line %d of %s)", field.Name, key.Line, l.path)
	if err := l.origins.set(l.fs, field.Flag, text, origin); err != nil {
		l.fault(value, "%s is %q: %w", field.Name, text, err)
	}
}

// tags are the YAML types of the values of each type of field.
var tags = map[string]string{boolean: "!!bool", integer: "!!int", duration: "!!str", text: "!!str"}

// hints say how to write a value of each type of field.
var hints = map[string]string{
	boolean: "write true or false", integer: "write a number without quotes",
	duration: `write a duration such as 30s or 1h30m`, text: "put it in quotes", listOfText: "write a list of strings",
}

// scalar returns the value of a field as the text of its flag.
func scalar(field Field, value *yaml.Node) (string, error) {
	if field.Type == listOfText {
		return list(field, value)
	}
	if value.Kind != yaml.ScalarNode || value.ShortTag() != tags[field.Type] {
		return "", mismatch(field, value)
	}
	if field.Type == duration {
		if _, err := time.ParseDuration(value.Value); err != nil {
			return "", mismatch(field, value)
		}
	}
	if field.Type == boolean && value.Value != "true" && value.Value != "false" {
		return "", mismatch(field, value) // such as yes
	}
	return value.Value, nil
}

// list returns the items of a list, separated by commas.
func list(field Field, value *yaml.Node) (string, error) {
	if value.Kind != yaml.SequenceNode {
		return "", mismatch(field, value)
	}
	items := make([]string, 0, len(value.Content))
	for i, item := range value.Content {
		if item.Kind != yaml.ScalarNode || item.ShortTag() != tags[text] {
			return "", fmt.Errorf("item %d is no string: put it in quotes", i)
		}
		if strings.Contains(item.Value, ",") {
			return "", fmt.Errorf("item %d is %q: write one item for each part between commas", i, item.Value)
		}
		items = append(items, item.Value)
	}
	return strings.Join(items, ","), nil
}

// mismatch is the error for a value of another type than its field's.
func mismatch(field Field, value *yaml.Node) error {
	found := value.Value
	switch {
	case value.Kind == yaml.MappingNode:
		found = "a mapping"
	case value.Kind == yaml.SequenceNode:
		found = "a list"
	case value.ShortTag() == "!!null":
		return errors.New("it has no value: give one, or remove the field")
	}
	return fmt.Errorf("%s is no %s: %s", found, field.Type, hints[field.Type])
}
