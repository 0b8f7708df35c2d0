// Package protofile compiles what proto objects hold: the text of a .proto file,
// or a FileDescriptorSet that protoc made of several, in base64.
package protofile

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// name is the file's in messages.
const name = "content.proto"

// Compile returns the files that content is or holds, and those that they
// import. A text may import the files of google/protobuf and no others. An error
// says where in the text something is wrong.
func Compile(content string) (*protoregistry.Files, error) {
	files, err := compileText(content)
	if err == nil {
		return files, nil
	}
	raw, notBase64 := base64.StdEncoding.DecodeString(content)
	if notBase64 != nil {
		return nil, err
	}
	return compileSet(raw)
}

func compileText(text string) (*protoregistry.Files, error) {
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{name: text}),
	})}
	linked, err := c.Compile(context.Background(), name)
	if err != nil {
		return nil, err
	}
	files := new(protoregistry.Files)
	for _, f := range linked {
		if err := register(files, f); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// register adds a file after those that it imports.
func register(files *protoregistry.Files, f protoreflect.FileDescriptor) error {
	if _, err := files.FindFileByPath(f.Path()); err == nil {
		return nil
	}
	for i := range f.Imports().Len() {
		if err := register(files, f.Imports().Get(i).FileDescriptor); err != nil {
			return err
		}
	}
	return files.RegisterFile(f)
}

func compileSet(raw []byte) (*protoregistry.Files, error) {
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(raw, set); err != nil {
		return nil, errors.New("neither a .proto file nor a FileDescriptorSet in base64")
	}
	if len(set.File) == 0 {
		return nil, errors.New("the FileDescriptorSet holds no file")
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, fmt.Errorf("FileDescriptorSet: %w", err)
	}
	return files, nil
}
