package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/terminal"
)

// Values of -o.
const (
	outputWide     = "wide"
	outputJSON     = render.JSON
	outputYAML     = render.YAML
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

// printAnswer prints an answer as JSON or YAML, or as text where no output is named.
func printAnswer(out io.Writer, output string, answer any, text string) error {
	if output == "" {
		return printText(out, text)
	}
	return printDocument(out, output, answer)
}

// printDocument prints a value as JSON or YAML.
func printDocument(out io.Writer, output string, value any) error {
	document, err := render.Document(output, value)
	if err != nil {
		return err
	}
	return printText(out, document)
}

// printText prints text.
func printText(out io.Writer, text string) error {
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// printMessage prints a message to the user, in addition to the answer.
func printMessage(errOut io.Writer, text string) {
	_, _ = fmt.Fprintln(errOut, "vidra:", render.Line(text)) // an error cannot be reported
}

// printMessages prints the missing parts of an answer.
func printMessages(errOut io.Writer, texts []string) {
	for _, text := range texts {
		printMessage(errOut, text)
	}
}

// styleOf is how answers are printed to out.
func styleOf(out io.Writer, output string) render.Style {
	return render.Style{Colour: coloured(out), Wide: output == outputWide, Now: time.Now(), Program: program}
}

// coloured reports whether out is a terminal that shows colours, and NO_COLOR
// (https://no-color.org) is unset.
func coloured(out io.Writer) bool {
	if w, ok := out.(*terminal.Writer); ok {
		out = w.Out
	}
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
