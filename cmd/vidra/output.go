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
	document = safeJSON(document)
	if output == outputYAML {
		document, err = yaml.JSONToYAML(document)
	} else {
		var indented bytes.Buffer
		err = json.Indent(&indented, append(document, '\n'), "", "    ")
		document = indented.Bytes()
	}
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return printText(out, string(document))
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
