"""Working tables of a run become temporary; runs know their job; an index for chunks without a vector."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("rag", "0004_evaluations"),
    ]

    operations = [
        migrations.DeleteModel(
            name="StagedChunk",
        ),
        migrations.DeleteModel(
            name="StagedRemoval",
        ),
        migrations.DeleteModel(
            name="StagedText",
        ),
        migrations.AddField(
            model_name="indexrun",
            name="attempt",
            field=models.PositiveSmallIntegerField(default=1),
        ),
        migrations.AddField(
            model_name="indexrun",
            name="continues",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="rag.indexrun",
            ),
        ),
        migrations.AddField(
            model_name="indexrun",
            name="job_id",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="indexrun",
            name="phase_started_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name="chunk",
            index=models.Index(fields=["project", "scope", "embedding_model"], name="rag_chunk_embedding_model"),
        ),
    ]
