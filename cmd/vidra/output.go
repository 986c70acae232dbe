package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/terminal"
)

// Values of -o.
const (
	outputWide     = "wide"
	outputJSON     = "json"
	outputYAML     = "yaml"
	outputName     = "name"
	outputMarkdown = "markdown"
)

// addOutput adds the flag -o with its values. They are checked before the command runs.
func addOutput(cmd *cobra.Command, output *string, allowed ...string) {
	usage := strings.Join(allowed[:len(allowed)-1], ", ") + " or " + allowed[len(allowed)-1]
	cmd.Flags().StringVarP(output, "output", "o", "", usage+" instead of the text for users")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if *output != "" {
			*output, err = oneOf("output", *output, allowed)
		}
		return err
	}
}

// printDocument prints a value as JSON or YAML.
func printDocument(out io.Writer, output string, value any) error {
	document, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	document, err = safeDocument(document, output == outputYAML)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return printText(out, string(document))
}

// safeDocument returns a JSON document as YAML or as indented JSON, escaped for a terminal. The YAML encoder writes some unsafe
// characters as they are. A document with such characters stays JSON, which is valid YAML.
func safeDocument(document []byte, asYAML bool) ([]byte, error) {
	escaped := terminal.EscapeJSON
	if asYAML {
		text, err := yaml.JSONToYAML([]byte(terminal.EscapeYAML(string(document)))) // it refuses control characters
		if plain := strings.ReplaceAll(string(text), "\t", " "); err != nil || safeLines("", plain) == plain {
			return text, err
		}
		escaped = terminal.EscapeYAML
	}
	var indented bytes.Buffer
	err := json.Indent(&indented, append(document, '\n'), "", "    ")
	return []byte(escaped(indented.String())), err
}

// printText prints text.
func printText(out io.Writer, text string) error {
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// ageOf is an age as kubectl writes it.
func ageOf(t, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t))
}

// plural is a number with a noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "ch") {
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
