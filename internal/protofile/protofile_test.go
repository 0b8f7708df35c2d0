package protofile

import (
	"encoding/base64"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const greeter = `syntax = "proto3";
package helloworld;
import "google/protobuf/timestamp.proto";
service Greeter { rpc SayHello (HelloRequest) returns (HelloReply) {} }
message HelloRequest { string name = 1; google.protobuf.Timestamp at = 2; }
message HelloReply { string message = 1; }`

func set(t *testing.T, files ...*descriptorpb.FileDescriptorProto) string {
	t.Helper()
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: files})
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func TestCompile(t *testing.T) {
	timestamp := protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto)
	lonely := &descriptorpb.FileDescriptorProto{Name: proto.String("a.proto"), Dependency: []string{"b.proto"}}
	for name, c := range map[string]struct{ content, finds, problem string }{
		"text":            {greeter, "helloworld.Greeter.SayHello", ""},
		"its import":      {greeter, "google.protobuf.Timestamp", ""},
		"proto2":          {"message A { optional int32 a = 1 [default = 7]; }", "A.a", ""},
		"set":             {set(t, timestamp), "google.protobuf.Timestamp.nanos", ""},
		"no end":          {"syntax = \"proto3\";\nmessage A {", "", "content.proto:2:12"},
		"unknown type":    {`syntax = "proto3"; message A { B b = 1; }`, "", "content.proto:1:32"},
		"other import":    {`syntax = "proto3"; import "other.proto";`, "", "other.proto"},
		"host's file":     {`syntax = "proto3"; import "/etc/passwd";`, "", "/etc/passwd"},
		"words":           {"hello there", "", "content.proto:1:1"},
		"base64 of words": {base64.StdEncoding.EncodeToString([]byte("hello there")), "", "FileDescriptorSet"},
		"empty set":       {"AAAA", "", "FileDescriptorSet"},
		"half a set":      {set(t, lonely), "", "b.proto"},
	} {
		files, err := Compile(c.content)
		switch {
		case c.problem != "":
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%s: %v, want %q", name, err, c.problem)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		default:
			if _, err := files.FindDescriptorByName(protoreflect.FullName(c.finds)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(greeter)
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, content string) {
		files, err := Compile(content)
		if (files == nil) != (err != nil) {
			t.Error(files, err)
		}
	})
}
