package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/files"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// filesFlags are the flags that name files.
type filesFlags struct {
	files          []string
	kustomizations []string
	recursive      bool
}

// add adds the flags, as kubectl has them.
func (f *filesFlags) add(cmd *cobra.Command, usage string) {
	cmd.Flags().StringArrayVarP(&f.files, "filename", "f", nil, usage)
	cmd.Flags().StringArrayVarP(&f.kustomizations, "kustomize", "k", nil, "a folder with a kustomization, which is built; may be repeated")
	cmd.Flags().BoolVarP(&f.recursive, "recursive", "R", false, "also read the folders inside the folders of -f")
}

// given reports whether the user named a file.
func (f *filesFlags) given() bool { return len(f.files)+len(f.kustomizations) > 0 }

// read reads the files. bar shows the progress; nil for none.
func (f *filesFlags) read(ctx context.Context, in io.Reader, bar *bar) ([]insight.File, error) {
	reader := files.Reader{In: in, Recursive: f.recursive}
	if bar != nil {
		reader.Progress = bar.reading
		defer bar.clear()
	}
	return reader.Read(ctx, f.files, f.kustomizations)
}

// arguments are the flags as the user gave them.
func (f *filesFlags) arguments() []string {
	var all []string
	for _, name := range f.files {
		all = append(all, "-f", name)
	}
	for _, name := range f.kustomizations {
		all = append(all, "-k", name)
	}
	if f.recursive {
		all = append(all, "-R")
	}
	return all
}
