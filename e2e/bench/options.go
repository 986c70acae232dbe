package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// commonOptions are the flags of every benchmark.
type commonOptions struct {
	// operator is the executable, or empty for that of the checkout.
	operator string
	// output is table or json, and file the file that the JSON is written to, too.
	output string
	file   string
	// plots is the folder that pictures go to, and peer whether Flux is measured.
	plots   string
	peer    bool
	profile profileOptions
}

func (o *commonOptions) flags(fs *flag.FlagSet) {
	fs.StringVar(&o.operator, "operator", "", "The executable of the operator; that of this checkout is built otherwise.")
	fs.StringVar(&o.output, "o", "table", "What to print: table or json.")
	fs.BoolVar(&o.peer, "peer", true, "Measure the apply library of Flux, too.")
	fs.StringVar(&o.plots, "plots", "", "A folder that pictures of the figures are drawn into, as SVG and PNG.")
	o.profile.flags(fs)
	fs.StringVar(&o.file, "json", "", "A file that the figures are written to as JSON, too.")
}

func (o *commonOptions) check() error {
	if o.output != "table" && o.output != "json" {
		return fmt.Errorf("-o is %q: it can be table or json", o.output)
	}
	return nil
}

// show prints a report, writes it to the files that the flags name, and returns its verdict.
func (o *commonOptions) show(out io.Writer, r *report) error {
	write := r.table
	if o.output == "json" {
		write = r.json
	}
	return errors.Join(write(out), o.save(r), o.draw(r), r.verdict())
}

// draw draws a report into the folder of -plots.
func (o *commonOptions) draw(r *report) error {
	if o.plots == "" {
		return nil
	}
	return r.plots(o.plots)
}

// save writes a value to the file of -json.
func (o *commonOptions) save(value any) (err error) {
	if o.file == "" {
		return nil
	}
	file, err := os.Create(o.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return printJSON(file, value)
}

// atLeastOne returns an error if a flag is not positive.
func atLeastOne(name string, value int) error {
	if value < 1 {
		return fmt.Errorf("-%s is %d: at least one is needed", name, value)
	}
	return nil
}
