package vidratest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/vidra-operator/vidra/pkg/terminal"
)

// Result is a test case of a report.
type Result struct {
	// Name of the test case.
	Name string
	// Took is how long it took, as in [Heal.Stood].
	Took time.Duration
	// Err is the reason of the failure; nil if it passed. A [*NotHealedError] is a failure, any other one an error of the
	// test.
	Err error
	// Output is the rest of the report.
	Output string
}

// The elements of JUnit XML that test runners read.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitProblem `xml:"failure"`
		Error   *junitProblem `xml:"error"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes results as a test suite in JUnit XML.
func WriteJUnit(w io.Writer, suite string, results ...Result) error {
	s := junitSuite{Name: suite, Tests: len(results)}
	var total time.Duration
	for _, r := range results {
		total += r.Took
		c := junitCase{Name: r.Name, Class: suite, Time: seconds(r.Took), Output: r.Output}
		switch {
		case r.Err == nil:
		case errors.As(r.Err, new(*NotHealedError)):
			s.Failures++
			c.Failure = &junitProblem{Message: "not healed", Text: r.Err.Error()}
		default:
			s.Errors++
			c.Error = &junitProblem{Message: "not measured", Text: r.Err.Error()}
		}
		s.Cases = append(s.Cases, c)
	}
	s.Time = seconds(total)
	text, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if _, err := fmt.Fprintf(&terminal.Writer{Out: w}, "%s%s\n", xml.Header, text); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.4f", d.Seconds()) }
